"""What an operator can set about lanes, long polls, uploads and pushers (behaviour.md §3.3, §4, §5, §7.1)."""

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from proxy.matrix.profiles import DEFAULT, MAX_WORKERS, PROFILE, Figure

#: None: as the top of the configuration says.
RuleMode = Literal["enforce", "report"] | None
_MAX_WAITS = 1_000_000


def _whole_number(minimum: int, maximum: int) -> BeforeValidator:
    def check(value: Any) -> Any:
        good = value == PROFILE or (type(value) is int and minimum <= value <= maximum)
        if not good:
            raise ValueError(f"must be {PROFILE}, or a whole number from {minimum} to {maximum}")
        return value

    return BeforeValidator(check)


def _fraction(value: Any) -> Any:
    if value == PROFILE or (type(value) in (int, float) and 0 < value <= 1):
        return value
    raise ValueError(f"must be {PROFILE}, or a number above 0 and at most 1")


PoolSize = Annotated[Literal["profile"] | int, _whole_number(4, MAX_WORKERS)]
Workers = Annotated[Literal["profile"] | int, _whole_number(1, MAX_WORKERS)]
Waits = Annotated[Literal["profile"] | int, _whole_number(1, _MAX_WAITS)]
Share = Annotated[Literal["profile"] | float, BeforeValidator(_fraction)]


class LaneSettings(BaseModel):
    """One lane: its workers, what of them one flow may have, the homeserver's time for an answer, the longest wait."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    workers: Workers = "profile"
    share: Share = "profile"
    deadline_seconds: float = Field(gt=0)
    max_wait_seconds: float = Field(gt=0)


class VitalLaneSettings(LaneSettings):
    """What clients need first."""

    deadline_seconds: float = Field(default=30, gt=0)
    max_wait_seconds: float = Field(default=5, gt=0)


class RequestLaneSettings(LaneSettings):
    """The lane of ordinary requests, in `generic` the pool; history reads may take longer."""

    workers: PoolSize = "profile"
    deadline_seconds: float = Field(default=180, gt=0)
    history_deadline_seconds: float = Field(default=300, gt=0)
    max_wait_seconds: float = Field(default=30, gt=0)


class MediaLaneSettings(LaneSettings):
    """Uploads, downloads, thumbnails, previews."""

    deadline_seconds: float = Field(default=600, gt=0)
    max_wait_seconds: float = Field(default=30, gt=0)


class PatientLaneSettings(LaneSettings):
    """What takes minutes by its nature: other servers, first syncs."""

    deadline_seconds: float = Field(default=600, gt=0)
    max_wait_seconds: float = Field(default=60, gt=0)


class FederationLaneSettings(LaneSettings):
    """Requests of other homeservers."""

    deadline_seconds: float = Field(default=180, gt=0)
    max_wait_seconds: float = Field(default=50, gt=0)


class AppserviceLaneSettings(LaneSettings):
    """Requests of appservices, each one flow with all its ghosts."""

    deadline_seconds: float = Field(default=180, gt=0)
    max_wait_seconds: float = Field(default=30, gt=0)


class LanesSettings(BaseModel):
    """The lanes and what holds for all of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mode: RuleMode = None
    requests: RequestLaneSettings = RequestLaneSettings()
    vital: VitalLaneSettings = VitalLaneSettings()
    media: MediaLaneSettings = MediaLaneSettings()
    remote: PatientLaneSettings = PatientLaneSettings()
    first_syncs: PatientLaneSettings = PatientLaneSettings()
    federation: FederationLaneSettings = FederationLaneSettings()
    appservices: AppserviceLaneSettings = AppserviceLaneSettings()
    line: int | None = Field(default=None, ge=1, le=_MAX_WAITS)
    address_share: float = Field(default=0.875, gt=0, le=1)
    max_lead_seconds: float = Field(default=10, ge=0)
    max_hold_seconds: float = Field(default=900, gt=0)
    history_per_account: int = Field(default=4, ge=1)


class SyncSettings(BaseModel):
    """The budgets of long polls."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mode: RuleMode = None
    workers: Waits = "profile"
    per_account: Waits = "profile"
    per_device: Waits = "profile"
    grace_seconds: float = Field(default=2, ge=0)
    max_timeout_seconds: float = Field(default=120, gt=0)


class UploadSettings(BaseModel):
    """Uploads; None: what the homeserver's media config says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: RuleMode = None
    max_bytes: int | None = Field(default=None, ge=1)


class PusherSettings(BaseModel):
    """Pushers of one account."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: RuleMode = None
    max_per_user: int = Field(default=20, ge=1)


class TunnelSettings(BaseModel):
    """Websocket tunnels at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: RuleMode = None
    per_account: int = Field(default=2, ge=1)
    per_address: int = Field(default=8, ge=1)


def given_figures(
    lanes: LanesSettings, sync: SyncSettings, from_environment: Collection[str] = ()
) -> dict[str, Figure]:
    """Give every number of both sections with its origin, for `profiles.figures`; `profile` leaves it to the profile.

    `from_environment` names the keys and sections that a variable set, like `lanes.requests.workers`.
    """
    found = {}
    for key, value, was_set in (*_numbers("lanes", lanes), *_numbers("sync", sync)):
        found[key] = Figure(value, _origin(key, from_environment) if was_set else DEFAULT)
    return found


def _origin(key: str, from_environment: Collection[str]) -> str:
    by_variable = any(f"{key}.".startswith(f"{path}.") for path in from_environment)
    return "environment" if by_variable else "file"


def _numbers(path: str, section: BaseModel) -> Iterator[tuple[str, float, bool]]:
    for name, value in section:
        key = f"{path}.{name}"
        if isinstance(value, BaseModel):
            yield from _numbers(key, value)
        elif isinstance(value, int | float):
            yield key, value, name in section.model_fields_set
