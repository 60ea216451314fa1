"""What an operator can set about the homeserver's side (behaviour.md §8, §9.5)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proxy.addresses import parse_homeserver_url


class HomeserverSettings(BaseModel):
    """Where the homeserver is and how connections to it are kept."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    url: str = "http://127.0.0.1:8008"
    profile: Literal["auto", "generic", "synapse", "dendrite", "tuwunel", "continuwuity", "conduit"] = "auto"
    connections: int | None = Field(default=None, ge=1)
    connect_timeout_seconds: float = Field(default=5, gt=0)
    idle_seconds: float = Field(default=45, gt=0)

    @field_validator("url")
    @classmethod
    def _url_can_be_read(cls, text: str) -> str:
        parse_homeserver_url(text)
        return text
