"""What an operator can set about the two listeners for operators (behaviour.md §11.2)."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proxy.addresses import parse_listen_address


class AdminSettings(BaseModel):
    """The admin API and page; loopback by default, since it names accounts. `token`: who may ask; None for everybody there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = "127.0.0.1:9402"
    token: str | None = Field(default=None, min_length=16, max_length=4096, pattern=r"^[!-~]+$", repr=False)

    @field_validator("listen")
    @classmethod
    def _listen_can_be_read(cls, text: str) -> str:
        parse_listen_address(text)
        return text


class MetricsSettings(BaseModel):
    """`/healthz`, `/servez`, `/readyz` and `/metrics`: nothing about a person, so it may be open."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = "127.0.0.1:9403"

    @field_validator("listen")
    @classmethod
    def _listen_can_be_read(cls, text: str) -> str:
        parse_listen_address(text)
        return text
