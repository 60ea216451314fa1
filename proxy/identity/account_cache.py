"""What the homeserver said about tokens: whose they are, or that it does not accept them (behaviour.md §2.3). Pure.

Keys are SHA-256 digests; no token is kept. An entry is believed for `fresh_s` and then served on for at most `stale_s` while
it is renewed behind; each renewal moves it to the end, and past `max_entries` the one renewed longest ago goes, so finding
costs one look-up in a dict and nothing else. What is refused is kept for `negative_s` in a map of its own, so that
invented tokens push out no account; there one client key has at most `_REFUSED_PER_KEY` entries, and all `_REFUSED`.
Every call is O(1), amortised. It is no authorisation: the homeserver judges each request by itself.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Final

from proxy.identity.principal import Principal
from proxy.identity.whoami import Denied, Named

#: What the homeserver makes of `?user_id=` with a token: not asked yet, ignores it (a user's), obeys it (an appservice's).
UNASKED, IGNORED, OBEYED = range(3)

#: A failed renewal is tried again after this: 3,000 clients of a homeserver that is down make 100 attempts a second.
_RETRY_S: Final = 30.0
_REFUSED: Final = 8192
_REFUSED_PER_KEY: Final = 64
_MAX_ANSWER_BYTES: Final = 2048
#: A look-up that failed is not tried again at once by each request of the same token.
_FAILED_S: Final = 2.0


def digest_of(token: bytes, user_id: bytes = b"") -> bytes:
    """Give what a token, and whom it is to be taken for, are known under."""
    return sha256(token + b"\0" + user_id).digest() if user_id else sha256(token).digest()


class Known:
    """A confirmed token. `principal` is what it made for the client it was last used from."""

    __slots__ = ("account", "device", "fresh_until", "guest", "masquerade", "principal", "stale_until")

    def __init__(self, named: Named, masquerade: int, fresh_until: float, stale_until: float) -> None:
        self.account = named.account
        self.device = named.device
        self.guest = named.guest
        self.masquerade = masquerade
        self.fresh_until = fresh_until
        self.stale_until = stale_until
        self.principal: Principal | None = None


class NotConfirmed:
    """A token that was refused, with the homeserver's answer, or could not be asked about (`denied` None)."""

    __slots__ = ("denied", "key", "until")

    def __init__(self, key: str, until: float, denied: Denied | None) -> None:
        self.key = key
        self.until = until
        self.denied = denied


class AccountCache:
    """The confirmed tokens and, apart from them, the others."""

    def __init__(self, *, fresh_s: float, stale_s: float, negative_s: float, max_entries: int) -> None:
        self.fresh_s = fresh_s
        self.stale_s = stale_s
        self.negative_s = negative_s
        self.max_entries = max_entries
        self.entries: OrderedDict[bytes, Known] = OrderedDict()
        self._others: OrderedDict[bytes, NotConfirmed] = OrderedDict()
        self._others_by_key: dict[str, OrderedDict[bytes, None]] = {}

    @property
    def refused(self) -> int:
        """How many tokens are in the map of those not confirmed."""
        return len(self._others)

    def find(self, digest: bytes, now: float) -> Known | None:
        """Give what is known of a token, fresh or stale."""
        known = self.entries.get(digest)
        if known is not None and known.stale_until <= now:
            del self.entries[digest]
            return None
        return known

    def confirm(self, digest: bytes, named: Named, masquerade: int, now: float) -> None:
        """Keep what the homeserver said; what it said of masquerade before stays, if it is UNASKED this time."""
        before = self.entries.pop(digest, None)
        if before is not None and before.account == named.account and masquerade == UNASKED:
            masquerade = before.masquerade
        fresh_until = now + self.fresh_s
        self.entries[digest] = Known(named, masquerade, fresh_until, fresh_until + self.stale_s)
        self._forget_other(digest)
        while len(self.entries) > self.max_entries:
            self.entries.popitem(last=False)

    def settle(self, digest: bytes, masquerade: int) -> None:
        """Keep what was learned of masquerade under a token that is known."""
        known = self.entries.get(digest)
        if known is not None:
            known.masquerade = masquerade
            known.principal = None

    def retry_later(self, digest: bytes, now: float) -> None:
        """After a renewal that told nothing: serve on what is known, and ask again after a while."""
        known = self.entries.get(digest)
        if known is not None:
            known.fresh_until = min(now + _RETRY_S, known.stale_until)
            self.entries.move_to_end(digest)

    def drop(self, digest: bytes) -> bool:
        """Forget an account: the homeserver answered 401 to its token, or ended it; tell whether it was known."""
        return self.entries.pop(digest, None) is not None

    def refuse(self, digest: bytes, key: str, denied: Denied | None, now: float) -> None:
        """Keep that the homeserver refused a token that `key` used, or (`denied` None) could not be asked."""
        if denied is not None and len(denied.answer) > _MAX_ANSWER_BYTES:
            denied = Denied(denied.status, b"")
        lasts_s = self.negative_s if denied is not None else min(self.negative_s, _FAILED_S)
        self._forget_other(digest)
        self._end_others(now)
        mine = self._others_by_key.get(key)
        if mine is not None and len(mine) >= _REFUSED_PER_KEY:
            self._forget_other(next(iter(mine)))
        if len(self._others) >= _REFUSED:
            self._forget_other(next(iter(self._others)))
        self._others_by_key.setdefault(key, OrderedDict())[digest] = None
        self._others[digest] = NotConfirmed(key, now + lasts_s, denied)

    def find_refused(self, digest: bytes, now: float) -> NotConfirmed | None:
        """Give why a token is not confirmed, if that was found out lately."""
        other = self._others.get(digest)
        if other is None:
            return None
        if other.until <= now:
            self._forget_other(digest)
            return None
        return other

    def forget_principals(self) -> None:
        """After a change of exemptions: every principal is made anew. O(entries)."""
        for known in self.entries.values():
            known.principal = None

    def _forget_other(self, digest: bytes) -> None:
        other = self._others.pop(digest, None)
        if other is not None:
            mine = self._others_by_key[other.key]
            del mine[digest]
            if not mine:
                del self._others_by_key[other.key]

    def _end_others(self, now: float) -> None:
        """Let go of the oldest whose time is over: a few at a time, more than are added."""
        for _ in range(4):
            oldest = next(iter(self._others), None)
            if oldest is None or self._others[oldest].until > now:
                return
            self._forget_other(oldest)
