"""What an operator can set about the homeserver's side (behaviour.md §4.1, §5.4, §9.5)."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proxy.addresses import parse_homeserver_url


class HomeserverSettings(BaseModel):
    """Where the homeserver is and how connections to it are kept."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    url: str = "http://127.0.0.1:8008"
    connections: int | None = Field(default=None, ge=1)
    connect_timeout_seconds: float = Field(default=5, gt=0)
    idle_seconds: float = Field(default=45, gt=0)

    @field_validator("url")
    @classmethod
    def _url_can_be_read(cls, text: str) -> str:
        parse_homeserver_url(text)
        return text


class LaneSettings(BaseModel):
    """How long the homeserver may take over a kind of request."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    deadline_seconds: float = Field(gt=0)


class RequestLaneSettings(LaneSettings):
    """The lane of ordinary requests; history reads may take longer."""

    deadline_seconds: float = Field(default=180, gt=0)
    history_deadline_seconds: float = Field(default=300, gt=0)


class LanesSettings(BaseModel):
    """The response deadline of each kind of request."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    requests: RequestLaneSettings = RequestLaneSettings()
    vital: LaneSettings = LaneSettings(deadline_seconds=30)
    media: LaneSettings = LaneSettings(deadline_seconds=600)
    remote: LaneSettings = LaneSettings(deadline_seconds=600)
    first_syncs: LaneSettings = LaneSettings(deadline_seconds=600)
    federation: LaneSettings = LaneSettings(deadline_seconds=180)
