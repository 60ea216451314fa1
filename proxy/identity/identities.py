"""Who is behind a token: what is known, what is asked, what is counted meanwhile (behaviour.md §2.3 to §2.6). Pure.

A token is asked about once, and again behind when that is 120 s old. A request that asks to be taken for another
(`?user_id=`) makes it a question whether the homeserver obeys: the first such request of a token is looked up as it is and once
more without. Two different accounts make the token an appservice's: one flow for all its ghosts; the same account twice makes
it a user's, with whom `user_id` means nothing. Either way the token alone says from then on who asks, and no later
masquerade needs a look-up. So entries are keyed by the token, and no number of invented `user_id`s makes more of them.

The order of calls: `identify`; where that gives None, `wait`; and after any call, while `due` is set, `start`, whose look-ups
the caller makes, telling `answered` once for each, whatever comes of it. Waits that end are given back with their principal.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, TypeVar
from urllib.parse import unquote_to_bytes

from proxy.identity.account_cache import (
    IGNORED,
    OBEYED,
    UNASKED,
    AccountCache,
    Known,
    NotConfirmed,
    digest_of,
)
from proxy.identity.client_key import Client
from proxy.identity.lookups import Lookup, Lookups, Wait
from proxy.identity.principal import CONFIRMED, FAILED, REFUSED, Exemptions, Principal
from proxy.identity.settings import IdentitySettings
from proxy.identity.whoami import Denied, Named, Outcome, outcome

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class IdentityStatistics:
    """Tokens known and lately refused; look-ups running and queued; requests waiting; what came of look-ups so far."""

    known: int
    refused: int
    running: int
    queued: int
    waiting: int
    named_total: int
    denied_total: int
    failed_total: int
    expired_total: int
    turned_away_total: int


class Identities(Generic[W]):
    """Principals of requests with a token; those without are `principal.anonymous`."""

    def __init__(self, settings: IdentitySettings, exemptions: Exemptions) -> None:
        self.due = False
        self.timeout_s = settings.timeout_seconds
        self._exemptions = exemptions
        self._cache = AccountCache(
            fresh_s=settings.fresh_seconds,
            stale_s=settings.stale_seconds,
            negative_s=settings.negative_seconds,
            max_entries=settings.max_entries,
        )
        self._entries = self._cache.entries
        self._lookups: Lookups[W] = Lookups(limit=settings.lookups, per_address=settings.lookups_per_address)
        self._again: list[Lookup[W]] = []
        self._named_total = self._denied_total = self._failed_total = 0
        self._expired_total = self._turned_away_total = 0

    def reconfigure(self, settings: IdentitySettings, exemptions: Exemptions) -> None:
        """Take new settings; what is known stays."""
        self.timeout_s = settings.timeout_seconds
        self._exemptions = exemptions
        cache = self._cache
        cache.fresh_s, cache.stale_s = settings.fresh_seconds, settings.stale_seconds
        cache.negative_s, cache.max_entries = settings.negative_seconds, settings.max_entries
        cache.forget_principals()
        self._lookups.limit, self._lookups.per_address = settings.lookups, settings.lookups_per_address

    # For requests.

    def identify(self, token: bytes, user_id: bytes, client: Client, now: float) -> Principal | None:
        """Give who asks, None where the homeserver must be asked first. `user_id` is raw, b"" for none."""
        digest = sha256(token).digest()
        known = self._entries.get(digest)
        if known is not None and now < known.fresh_until and (known.masquerade or not user_id):
            principal = known.principal
            if principal is not None and principal.client is client:
                return principal
            return self._principal(known, client)
        return self._judge(digest, token, user_id, client, now)

    def wait(
        self, waiter: W, token: bytes, user_id: bytes, query: bytes, client: Client, now: float
    ) -> "Wait[W] | Principal":
        """Ask about a token that `identify` could not tell; where too many are asked about, give who it counts as.

        `query` is the masquerade as whoami must be asked with it, raw; see `matrix.access_token`.
        """
        wait = Wait(waiter, sha256(token).digest(), token, user_id, query, client, now + self.timeout_s)
        if self._join(wait, now):
            return wait
        self._turned_away_total += 1
        return self._fallback(wait, now)

    def withdraw(self, wait: "Wait[W]") -> bool:
        """The client left; tell whether it still waited."""
        return self._lookups.end(wait)

    def expired(self, now: float) -> "list[Wait[W]]":
        """Give the requests that waited too long, each with its principal."""
        waits = self._lookups.expired(now)
        for wait in waits:
            wait.principal = self._fallback(wait, now)
        self._expired_total += len(waits)
        return waits

    def drop(self, token: bytes) -> None:
        """Forget a token: the homeserver answered 401 to it, or 2xx to its end. A look-up under way is out of date."""
        digest = sha256(token).digest()
        self._cache.drop(digest)
        lookup = self._lookups.of(digest)
        if lookup is not None and lookup.running:
            lookup.void = True

    # For look-ups.

    def start(self) -> "list[Lookup[W]]":
        """Give the look-ups to make now."""
        self.due = False
        again, self._again = self._again, []
        return again + self._lookups.start()

    def answered(
        self, lookup: "Lookup[W]", status: int, body: bytes, answer: bytes, now: float
    ) -> "list[Wait[W]]":
        """Take what came of a look-up (see `whoami.outcome`); give the requests that go on, each with its principal."""
        self.due = True
        told = outcome(status, body, answer)
        if lookup.void and isinstance(told, Named):
            if lookup.waits and not lookup.restarted:
                self._restart(lookup, now)
                return []
            told = None
            self._failed_total += 1
        elif self._learn(lookup, told, now):
            self._again.append(lookup)
            return []
        resumed = []
        for wait in self._lookups.finished(lookup):
            principal = self._resume(wait, lookup, told, now)
            if principal is not None:
                self._lookups.end(wait)
                wait.principal = principal
                resumed.append(wait)
        return resumed

    def statistics(self) -> IdentityStatistics:
        """Give the figures."""
        return IdentityStatistics(
            known=len(self._entries),
            refused=self._cache.refused,
            running=self._lookups.running,
            queued=self._lookups.queued,
            waiting=self._lookups.waiting,
            named_total=self._named_total,
            denied_total=self._denied_total,
            failed_total=self._failed_total,
            expired_total=self._expired_total,
            turned_away_total=self._turned_away_total,
        )

    # Deciding.

    def _judge(
        self, digest: bytes, token: bytes, user_id: bytes, client: Client, now: float
    ) -> Principal | None:
        """As `identify`, where it takes more than one look."""
        known = self._cache.find(digest, now)
        if known is None:
            refused = self._cache.find_refused(digest, now)
            if refused is None and user_id:
                refused = self._cache.find_refused(digest_of(token, user_id), now)
            return None if refused is None else _not_confirmed(refused, client)
        if known.fresh_until <= now:
            self._renew(digest, token, client)
        if user_id and known.masquerade == UNASKED and not _is_same(user_id, known.account):
            refused = self._cache.find_refused(digest_of(token, user_id), now)
            if refused is None:
                return None
            if refused.denied is not None:
                return _not_confirmed(refused, client)
        return self._principal(known, client)

    def _principal(self, known: Known, client: Client) -> Principal:
        appservice = known.masquerade == OBEYED
        exempt = self._exemptions.cover(known.account, known.device, guest=known.guest, appservice=appservice)
        known.principal = principal = Principal(
            client, CONFIRMED, account=known.account, device=known.device, guest=known.guest, appservice=appservice,
            exempt=exempt,
        )  # fmt: skip
        return principal

    def _fallback(self, wait: "Wait[W]", now: float) -> Principal:
        """Give who a request counts as when nothing was learned: whom the token was known for, else its client key."""
        known = self._cache.find(wait.digest, now)
        return Principal(wait.client, FAILED) if known is None else self._principal(known, wait.client)

    def _resume(self, wait: "Wait[W]", lookup: "Lookup[W]", told: Outcome, now: float) -> Principal | None:
        """Give who a request counts as after a look-up, None where it waits for another."""
        if told is None:
            return self._fallback(wait, now)
        if isinstance(told, Denied) and wait.user_id == lookup.user_id:
            return Principal(wait.client, REFUSED, refusal=told)
        principal = self._judge(wait.digest, wait.token, wait.user_id, wait.client, now)
        if principal is None and not self._join(wait, now):
            return self._fallback(wait, now)
        return principal

    # Asking.

    def _join(self, wait: "Wait[W]", now: float) -> bool:
        lookup = self._lookups.of(wait.digest)
        if lookup is None:
            lookup = Lookup(wait.digest, wait.token, wait.client)
            self._plan(lookup, wait.user_id, wait.query, now)
            if not self._lookups.add(lookup):
                return False
        self._lookups.join(lookup, wait)
        self.due = True
        return True

    def _plan(self, lookup: "Lookup[W]", user_id: bytes, query: bytes, now: float) -> None:
        """Settle what is asked: with the masquerade, without, or first the one and then the other."""
        lookup.user_id = user_id
        lookup.query = query if user_id else b""
        lookup.then_plain = bool(user_id) and self._cache.find(lookup.digest, now) is None

    def _renew(self, digest: bytes, token: bytes, client: Client) -> None:
        if self._lookups.of(digest) is None:
            self._lookups.add(Lookup(digest, token, client, renewal=True))
            self.due = True

    def _restart(self, lookup: "Lookup[W]", now: float) -> None:
        """Ask once more, in the same place: what came back is from before the token was dropped."""
        lookup.void = False
        lookup.restarted = True
        lookup.named = None
        wait = next(iter(lookup.waits))
        self._plan(lookup, wait.user_id, wait.query, now)
        self._again.append(lookup)

    def _learn(self, lookup: "Lookup[W]", told: Outcome, now: float) -> bool:
        """Keep what an answer says; tell whether the same look-up asks on."""
        if told is None:
            self._failed_total += 1
        elif isinstance(told, Named):
            self._named_total += 1
        else:
            self._denied_total += 1
        if lookup.query:
            return self._learn_masquerade(lookup, told, now)
        if isinstance(told, Named):
            self._cache.confirm(lookup.digest, told, _masquerade(lookup, told), now)
        elif told is None and self._cache.find(lookup.digest, now) is not None:
            self._cache.retry_later(lookup.digest, now)
        else:
            self._cache.drop(lookup.digest)
            self._cache.refuse(lookup.digest, lookup.client.key, told, now)
        return False

    def _learn_masquerade(self, lookup: "Lookup[W]", told: Outcome, now: float) -> bool:
        if isinstance(told, Named):
            if lookup.then_plain:
                lookup.named = told
                lookup.query = b""
                return True
            known = self._cache.find(lookup.digest, now)
            if known is not None:
                self._cache.settle(lookup.digest, OBEYED if told.account != known.account else IGNORED)
        elif told is not None and told.status == 401:
            self._cache.drop(lookup.digest)
            self._cache.refuse(lookup.digest, lookup.client.key, told, now)
        else:
            self._cache.refuse(digest_of(lookup.token, lookup.user_id), lookup.client.key, told, now)
        return False


def _masquerade(lookup: "Lookup[W]", told: Named) -> int:
    """Tell what the answers with and without `user_id` say of it; nothing, where it asked to be who it is."""
    if lookup.named is None:
        return UNASKED
    if lookup.named.account != told.account:
        return OBEYED
    return UNASKED if _is_same(lookup.user_id, told.account) else IGNORED


def _is_same(user_id: bytes, account: str) -> bool:
    """Tell whether a raw `user_id` names an account."""
    return (
        unquote_to_bytes(user_id.replace(b"+", b" ")).decode("utf-8", "replace").casefold()
        == account.casefold()
    )


def _not_confirmed(found: NotConfirmed, client: Client) -> Principal:
    if found.denied is None:
        return Principal(client, FAILED)
    return Principal(client, REFUSED, refusal=found.denied)
