"""What an operator can set about the two listeners for operators (behaviour.md §11.2)."""

from pydantic import BaseModel, ConfigDict, field_validator

from proxy.addresses import parse_listen_address


class AdminSettings(BaseModel):
    """`/v1/status`; loopback by default, since it will name accounts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = "127.0.0.1:9402"

    @field_validator("listen")
    @classmethod
    def _listen_can_be_read(cls, text: str) -> str:
        parse_listen_address(text)
        return text


class MetricsSettings(BaseModel):
    """`/healthz`, `/readyz` and `/metrics`: nothing about a person, so it may be open."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = "127.0.0.1:9403"

    @field_validator("listen")
    @classmethod
    def _listen_can_be_read(cls, text: str) -> str:
        parse_listen_address(text)
        return text
