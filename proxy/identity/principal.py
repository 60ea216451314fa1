"""Who is asking, as the rules see it: account or client key, flow, exemptions (behaviour.md §2.5, §2.6). Pure.

A flow is what lanes are shared between, as text that tells its kind by how it begins: `@…` a confirmed account,
`appservice @…` an appservice with all its ghosts, anything else a client key. Guests, and whoever is not confirmed, are their
client key: a token's text proves nothing. One exemption lifts every limit by flow and by address; lanes' sizes hold for all.
"""

import re
from collections.abc import Iterable
from typing import Final

from proxy.identity.client_key import Client
from proxy.identity.globs import compile_globs
from proxy.identity.whoami import Denied

#: How it stands with the token. CONFIRMED: the homeserver names its account. NO_TOKEN: none, or none that can be one.
#: REFUSED: the homeserver does not accept it. FAILED: it could not be asked in time.
CONFIRMED, NO_TOKEN, REFUSED, FAILED = range(4)
STANDING_NAMES: Final = ("confirmed", "no_token", "refused", "failed")

_ACCOUNT: Final = re.compile(r"@[^:\s]*:\S+")
_ACCOUNT_PATTERN: Final = re.compile(r"[@*?]\S*")


class Principal:
    """Who is asking. Shared between requests; not to be changed.

    `account` and `device` are the homeserver's words about the token, also for guests and appservices (the sender's account);
    None unless `standing` is CONFIRMED. `refusal` is the homeserver's own answer to whoami, to be relayed (§3.4), where
    `standing` is REFUSED and it is still known. `address_capped` says whether the rules by address hold.
    """

    __slots__ = (
        "account",
        "address_capped",
        "appservice",
        "client",
        "device",
        "exempt",
        "flow",
        "guest",
        "key",
        "refusal",
        "standing",
    )

    def __init__(
        self,
        client: Client,
        standing: int,
        *,
        account: str | None = None,
        device: str | None = None,
        guest: bool = False,
        appservice: bool = False,
        exempt: bool = False,
        refusal: Denied | None = None,
    ) -> None:
        self.client = client
        self.key = client.key
        self.standing = standing
        self.account = account
        self.device = device
        self.guest = guest
        self.appservice = appservice
        self.exempt = exempt or client.exempt
        self.refusal = refusal
        self.address_capped = not (appservice or exempt or client.address_exempt)
        if appservice:
            self.flow = f"appservice {account}"
        elif account is None or guest:
            self.flow = client.key
        else:
            self.flow = account

    @property
    def confirmed(self) -> bool:
        """Whether the homeserver named the token's account; guests are confirmed too."""
        return self.standing == CONFIRMED

    def __repr__(self) -> str:
        return f"<Principal {self.flow} {STANDING_NAMES[self.standing]}>"


def anonymous(client: Client) -> Principal:
    """Give who asks without a usable token: one object for each client."""
    principal = client.anonymous
    if principal is None:
        principal = client.anonymous = Principal(client, NO_TOKEN)
    return principal


class Exemptions:
    """Accounts, devices and appservices that are exempt; networks are the client's (`client_key`)."""

    __slots__ = ("_accounts", "_appservices", "_devices")

    def __init__(
        self, *, accounts: Iterable[str] = (), devices: Iterable[str] = (), appservices: Iterable[str] = ()
    ) -> None:
        """Take the patterns as the settings have them, checked."""
        self._accounts = compile_globs(accounts)
        self._devices = frozenset(parse_device(text) for text in devices)
        self._appservices = compile_globs(appservices)

    def cover(self, account: str, device: str | None, *, guest: bool, appservice: bool) -> bool:
        """Tell whether a confirmed account is exempt; a guest, whom everyone may be, never is."""
        if guest:
            return False
        if appservice and self._appservices is not None and self._appservices.fullmatch(account):
            return True
        if self._accounts is not None and self._accounts.fullmatch(account):
            return True
        return (account, device) in self._devices


def check_account_pattern(text: str) -> str:
    """Give back an account that may have `*` and `?`, if it can be one.

    Raises:
        ValueError: with a sentence for the operator.
    """
    if not _ACCOUNT_PATTERN.fullmatch(text):
        raise ValueError("is not an account; write @name:server, where * stands for any characters")
    return text


def parse_device(text: str) -> tuple[str, str]:
    """Read `@name:server/DEVICE` into account and device: a device id alone may be chosen by anyone who logs in.

    Raises:
        ValueError: with a sentence for the operator.
    """
    name, colon, rest = text.partition(":")
    server, _, device = rest.partition("/")
    account = name + colon + server
    if not _ACCOUNT.fullmatch(account) or not device:
        raise ValueError("is not a device; write @name:server/DEVICEID")
    return account, device
