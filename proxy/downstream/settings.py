"""What an operator can set about the clients' side (behaviour.md §1, §9.3)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proxy.addresses import parse_listen_address
from proxy.policies.settings import TunnelSettings


class CertificateSettings(BaseModel):
    """Two PEM files: a certificate with its chain, and the key that belongs to it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    certificate: str = Field(min_length=1)
    key: str = Field(min_length=1)


class TlsSettings(BaseModel):
    """TLS of one listener; the first certificate is for clients that ask for no name, or for one that nobody has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    certificates: tuple[CertificateSettings, ...] = Field(min_length=1)
    minimum_version: Literal["1.2", "1.3"] = "1.2"

    @field_validator("minimum_version", mode="before")
    @classmethod
    def _a_number_is_meant_as_text(cls, version: object) -> object:
        return str(version) if isinstance(version, float) else version


class ListenSettings(BaseModel):
    """One place to listen at: `host:port`, `[v6]:port` or `unix:/path`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    address: str = "127.0.0.1:8010"
    proxy_protocol: bool = False
    tls: TlsSettings | None = None

    @field_validator("address")
    @classmethod
    def _address_can_be_read(cls, text: str) -> str:
        parse_listen_address(text)
        return text


class ConnectionSettings(BaseModel):
    """Deadlines and sizes of a client's connection."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    max: int = Field(default=20_000, ge=1)
    per_address: int = Field(default=512, ge=1)
    first_byte_seconds: float = Field(default=5, gt=0)
    tls_hello_seconds: float = Field(default=15, gt=0)
    tls_handshake_seconds: float = Field(default=15, gt=0)
    head_seconds: float = Field(default=30, gt=0)
    keep_alive_idle_seconds: float = Field(default=75, gt=0)
    trusted_idle_seconds: float = Field(default=660, gt=0)
    max_requests: int = Field(default=1000, ge=1)
    max_age_seconds: float = Field(default=3600, gt=0)
    drain_seconds: float = Field(default=25, ge=0)
    max_head_bytes: int = Field(default=65_536, ge=1024, le=1_048_576)
    max_fields: int = Field(default=100, ge=10, le=1000)
    max_target_bytes: int = Field(default=16_384, ge=256, le=65_536)
    tunnels: TunnelSettings = TunnelSettings()
