"""What an operator can set about the way out (behaviour.md §7.2 to §7.4)."""

import ipaddress

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proxy.addresses import parse_listen_address
from proxy.identity.settings import NetworkText
from proxy.mechanisms.origin_names import normal_host, split_authority, written


class EgressListenSettings(BaseModel):
    """Where the homeserver finds it: `host:port`, `[v6]:port` or `unix:/path`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str

    @field_validator("address")
    @classmethod
    def _address_can_be_read(cls, text: str) -> str:
        parse_listen_address(text)
        return text


class EgressSettings(BaseModel):
    """The forward proxy that the homeserver is pointed at; `listen: null` is off."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    listen: EgressListenSettings | None = None
    clients: tuple[NetworkText, ...] = ("127.0.0.0/8", "::1/128")
    allow: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    failure_threshold: int = Field(default=3, ge=1, le=1000)
    cooldown_seconds: float = Field(default=300, gt=0)
    max_tracked: int = Field(default=4096, ge=1, le=1_000_000)
    delivery_timeout_seconds: float = Field(default=60, ge=5, le=600)
    resolve_timeout_seconds: float = Field(default=10, gt=0, le=60)
    connect_timeout_seconds: float = Field(default=10, gt=0, le=60)
    max_connections: int = Field(default=1024, ge=1)

    @field_validator("allow")
    @classmethod
    def _networks_can_be_read(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(
                    f"{text!r} is no network; write 10.1.2.0/24, fd00::/8 or an address, with no bits behind the prefix"
                ) from None
        return texts

    @field_validator("gateways")
    @classmethod
    def _gateways_can_be_read(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_gateway(text) for text in texts)


def _gateway(text: str) -> str:
    """Bring an entry to the one spelling: `host` for every port, or `host:port`."""
    host = normal_host(text)
    if host is not None:
        return host
    both = split_authority(text, None)
    if both is None:
        raise ValueError(
            f"{text!r} is no gateway; write its host, or host:port, without https:// and without a path"
        )
    return written(*both)
