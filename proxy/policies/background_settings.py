"""What an operator can set about background work (behaviour.md §6); docs/background.md tells the reason of each figure."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from proxy.identity.settings import AccountText
from proxy.policies.settings import RuleMode

#: Route classes that may be background as a whole: not vital, which clients need first, and not other servers' federation.
MatchableClass = Literal["requests", "media", "history", "remote", "sync", "first_sync"]


AgentGlob = Annotated[str, StringConstraints(min_length=1)]


class BackgroundMatchSettings(BaseModel):
    """What counts as background besides requests that say so: any one of these suffices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    accounts: tuple[AccountText, ...] = ()
    user_agents: tuple[AgentGlob, ...] = ()
    classes: tuple[MatchableClass, ...] = ()


class BackgroundTimeoutSettings(BaseModel):
    """From when on a background request counts as a failure, in seconds from sending."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    default: float = Field(default=30, gt=0)
    state: float = Field(default=15, gt=0)


class BackgroundSettings(BaseModel):
    """The gate: its limit, its breaker, its line."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mode: RuleMode = None
    match: BackgroundMatchSettings = BackgroundMatchSettings()
    initial_limit: int = Field(default=2, ge=1)
    max_limit: int = Field(default=4, ge=1, le=1024)
    grow_after: int = Field(default=10, ge=1)
    fast_fraction: float = Field(default=0.5, gt=0, le=1)
    timeout_seconds: BackgroundTimeoutSettings = BackgroundTimeoutSettings()
    hold_seconds: float = Field(default=900, gt=0)
    cooldown_seconds: float = Field(default=60, gt=0)
    cooldown_max_seconds: float = Field(default=1800, gt=0)
    max_wait_seconds: float = Field(default=30, gt=0)

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.initial_limit > self.max_limit:
            raise ValueError(
                f"initial_limit is {self.initial_limit}, which is above max_limit, {self.max_limit}"
            )
        if self.cooldown_seconds > self.cooldown_max_seconds:
            raise ValueError(
                f"cooldown_seconds is {self.cooldown_seconds:g}, above cooldown_max_seconds, {self.cooldown_max_seconds:g}"
            )
        return self
