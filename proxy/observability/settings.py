"""What an operator can set about logs (behaviour.md §11.4)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LogSettings(BaseModel):
    """`access` says which requests get a line of their own; None switches the other three off."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"
    access: Literal["none", "refused", "all"] = "refused"
    slow_seconds: float | None = Field(default=10, gt=0)
    top_every_seconds: float | None = Field(default=60, ge=1)
    trace: str | None = Field(default=None, min_length=1)
