"""What an operator can set about bodies and answers (behaviour.md §3)."""

import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class RateSettings(BaseModel):
    """The least speed of a body: bytes per second, and the seconds before they are required."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    bytes_per_second: float = Field(gt=0)
    grace_seconds: float = Field(ge=0)


class UnconfirmedRateSettings(RateSettings):
    """Of who is not confirmed: fast enough that a slow body costs an attacker."""

    bytes_per_second: float = Field(default=16_384, gt=0)
    grace_seconds: float = Field(default=10, ge=0)


class ConfirmedRateSettings(RateSettings):
    """Of confirmed accounts, on bad mobile networks too."""

    bytes_per_second: float = Field(default=2_048, gt=0)
    grace_seconds: float = Field(default=30, ge=0)


class BodyRatesSettings(BaseModel):
    """The least speed by what is known of who is asking."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    unconfirmed: UnconfirmedRateSettings = UnconfirmedRateSettings()
    confirmed: ConfirmedRateSettings = ConfirmedRateSettings()


class BodiesSettings(BaseModel):
    """Bodies of requests, and the memory that both directions share."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    memory_bytes: int = Field(default=65_536, ge=4_096)
    memory_total_bytes: int = Field(default=268_435_456, ge=1_048_576)
    spool_directory: str | None = Field(default=None, min_length=1)
    spool_bytes: int = Field(default=1_073_741_824, ge=0)
    max_json_bytes: int = Field(default=13_107_200, ge=1)
    confirm_above_bytes: int = Field(default=1_048_576, ge=0)
    rate: BodyRatesSettings = BodyRatesSettings()


class ResponsesSettings(BaseModel):
    """Answers that wait for their client."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    memory_bytes: int = Field(default=262_144, ge=4_096)
    spool_bytes: int = Field(default=1_073_741_824, ge=0)


def spool_directory(configured: str | None, state_directory: str | None) -> Path:
    """Give where spool files go: what is set, else a folder of its own under the state directory, else the system's place."""
    if configured is not None:
        return Path(configured)
    if state_directory is not None:
        return Path(state_directory) / "spool"
    return Path(tempfile.gettempdir())
