"""What an operator can set about who asks: trusted proxies, exemptions, and the look-ups of tokens (behaviour.md §2)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from proxy.identity.networks import parse_network
from proxy.identity.principal import check_account_pattern, parse_device


def _network(text: str) -> str:
    parse_network(text)
    return text


def _device(text: str) -> str:
    parse_device(text)
    return text


NetworkText = Annotated[str, AfterValidator(_network)]
AccountText = Annotated[str, AfterValidator(check_account_pattern)]
DeviceText = Annotated[str, AfterValidator(_device)]


class ExemptSettings(BaseModel):
    """Who is exempt from every limit by account or address. Accounts and appservices (by their sender) may have `*` and `?`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    accounts: tuple[AccountText, ...] = ()
    devices: tuple[DeviceText, ...] = ()
    appservices: tuple[AccountText, ...] = ()
    networks: tuple[NetworkText, ...] = ()


class ClientsSettings(BaseModel):
    """Whom to believe about clients' addresses, and who is exempt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trusted_proxies: tuple[NetworkText, ...] = ()
    forwarded_header: Literal["X-Forwarded-For", "Forwarded"] = "X-Forwarded-For"
    ipv6_prefix: int = Field(default=64, ge=16, le=128)
    exempt: ExemptSettings = ExemptSettings()


class IdentitySettings(BaseModel):
    """How long what the homeserver said about a token is believed, and how many tokens are asked about at once."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    fresh_seconds: float = Field(default=120, gt=0)
    stale_seconds: float = Field(default=86_400, ge=0)
    negative_seconds: float = Field(default=10, ge=0)
    max_entries: int = Field(default=50_000, ge=1)
    lookups: int = Field(default=16, ge=1)
    lookups_per_address: int = Field(default=2, ge=1)
    timeout_seconds: float = Field(default=5, gt=0)
