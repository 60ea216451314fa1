"""What an operator can set about logs (behaviour.md §11.4)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class LogSettings(BaseModel):
    """`access` says which requests get a line of their own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"
    access: Literal["none", "refused", "all"] = "refused"
