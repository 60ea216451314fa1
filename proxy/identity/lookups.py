"""Which tokens the homeserver is asked about now, and which requests wait for that (behaviour.md §2.4). Pure.

A queue and places: `limit` look-ups run at once, of one client key `per_address` (all of them for clients exempt from the rules
by address), and of one token one. Keys take turns; within a key, look-ups that somebody waits for go before renewals, oldest
first. A key has at most `_QUEUED_PER_KEY` in line; from half of `_QUEUED` on only a key with none gets in, at `_QUEUED` none.
A wait ends once: resumed, withdrawn, or expired after `timeout_s`, queue and look-up together. Every call is O(1), amortised.
"""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from proxy.identity.client_key import Client
from proxy.identity.principal import Principal
from proxy.identity.whoami import Named

_QUEUED: Final = 8192
_QUEUED_PER_KEY: Final = 512

W = TypeVar("W")  # who is told when a wait ends


class Wait(Generic[W]):
    """A request that waits for its token. Once it is given back, `principal` says who asks."""

    __slots__ = ("client", "digest", "lookup", "principal", "query", "token", "until", "user_id", "waiter")

    def __init__(
        self,
        waiter: W,
        digest: bytes,
        token: bytes,
        user_id: bytes,
        query: bytes,
        client: Client,
        until: float,
    ) -> None:
        self.waiter = waiter
        self.digest = digest
        self.token = token
        self.user_id = user_id
        self.query = query
        self.client = client
        self.until = until
        self.lookup: Lookup[W] | None = None
        self.principal: Principal | None = None

    def __repr__(self) -> str:
        return f"<Wait {self.client.key}>"


class Lookup(Generic[W]):
    """One token to ask about: `token`, `query` (raw, without `?`) and `client` are what whoami is to be asked with now.

    `user_id` is the masquerade it is about, b"" for none; `then_plain` says that it is asked again without. `named` is what
    came of the first of two questions. `void` says that the token was dropped while it ran: its answer is out of date.
    """

    __slots__ = (
        "client", "digest", "line", "named", "query", "renewal", "restarted", "running", "then_plain", "token", "user_id",
        "void", "waits",
    )  # fmt: skip

    def __init__(
        self,
        digest: bytes,
        token: bytes,
        client: Client,
        *,
        renewal: bool = False,
    ) -> None:
        self.digest = digest
        self.token = token
        self.client = client
        self.user_id = self.query = b""
        self.then_plain = False
        self.renewal = renewal
        self.named: Named | None = None
        self.running = False
        self.void = False
        self.restarted = False
        self.waits: dict[Wait[W], None] = {}
        self.line: _Line[W] | None = None

    def __repr__(self) -> str:
        return f"<Lookup {self.client.key} {'running' if self.running else 'queued'}>"


class _Line(Generic[W]):
    """What one client key has running and queued."""

    __slots__ = ("key", "limit", "renewals", "running", "waited")

    def __init__(self, key: str) -> None:
        self.key = key
        self.limit = 0
        self.running = 0
        self.waited: OrderedDict[Lookup[W], None] = OrderedDict()
        self.renewals: OrderedDict[Lookup[W], None] = OrderedDict()

    def queued(self) -> int:
        return len(self.waited) + len(self.renewals)


class Lookups(Generic[W]):
    """All look-ups and waits. What may run is taken with `start`; each must be given back with `finished`, once."""

    def __init__(self, *, limit: int, per_address: int) -> None:
        self.limit = limit
        self.per_address = per_address
        self.max_queued = _QUEUED
        self.max_queued_per_key = _QUEUED_PER_KEY
        self.running = 0
        self.queued = 0
        self._by_digest: dict[bytes, Lookup[W]] = {}
        self._lines: dict[str, _Line[W]] = {}
        self._turns: OrderedDict[str, _Line[W]] = OrderedDict()  # the lines with something to start
        self._waits: OrderedDict[Wait[W], None] = OrderedDict()  # by `until`, since all wait equally long

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waits)

    def of(self, digest: bytes) -> Lookup[W] | None:
        """Give the look-up of a token, queued or running."""
        return self._by_digest.get(digest)

    def add(self, lookup: Lookup[W]) -> bool:
        """Queue the look-up of a token that has none; False where its line is full."""
        key = lookup.client.key
        line = self._lines.get(key)
        mine = 0 if line is None else line.queued()
        if mine >= self.max_queued_per_key or self.queued >= (
            self.max_queued // 2 if mine else self.max_queued
        ):
            return False
        if line is None:
            line = self._lines[key] = _Line(key)
        line.limit = self.limit if lookup.client.address_exempt else self.per_address
        lookup.line = line
        (line.renewals if lookup.renewal else line.waited)[lookup] = None
        self.queued += 1
        self._by_digest[lookup.digest] = lookup
        self._take_turns(line)
        return True

    def join(self, lookup: Lookup[W], wait: Wait[W]) -> None:
        """Let a request wait for a look-up that was added; one that joins a renewal makes it go first."""
        line = lookup.line
        if line is not None and lookup in line.renewals:
            del line.renewals[lookup]
            line.waited[lookup] = None
        lookup.waits[wait] = None
        wait.lookup = lookup
        self._waits.setdefault(wait)

    def start(self) -> list[Lookup[W]]:
        """Take what may run now."""
        started: list[Lookup[W]] = []
        while self._turns and self.running < self.limit:
            line = self._turns.popitem(last=False)[1]
            lookup = (line.waited or line.renewals).popitem(last=False)[0]
            lookup.running = True
            line.running += 1
            self.running += 1
            self.queued -= 1
            started.append(lookup)
            self._take_turns(line)
        return started

    def finished(self, lookup: Lookup[W]) -> list[Wait[W]]:
        """Give a place back; give who waited. Each of these must now `join` another look-up or `end`."""
        line = lookup.line
        if line is None or not lookup.running:
            raise ValueError("a look-up ends once, and only after it was started")
        lookup.running = False
        self.running -= 1
        line.running -= 1
        self._leave(lookup, line)
        self._take_turns(line)
        waits = list(lookup.waits)
        lookup.waits.clear()
        for wait in waits:
            wait.lookup = None
        return waits

    def end(self, wait: Wait[W]) -> bool:
        """Let a request wait no longer; tell whether it did. A queued look-up that nobody waits for is not made."""
        if wait not in self._waits:
            return False
        del self._waits[wait]
        lookup = wait.lookup
        wait.lookup = None
        if lookup is not None:
            del lookup.waits[wait]
            if not lookup.waits and not lookup.running and lookup.line is not None:
                self._unqueue(lookup, lookup.line)
        return True

    def expired(self, now: float) -> list[Wait[W]]:
        """End the waits whose time is over, and give them."""
        ended = []
        while self._waits:
            wait = next(iter(self._waits))
            if wait.until > now:
                break
            self.end(wait)
            ended.append(wait)
        return ended

    def _unqueue(self, lookup: Lookup[W], line: _Line[W]) -> None:
        """Nobody waits any more: a renewal goes back among those, anything else is dropped."""
        del line.waited[lookup]
        if lookup.renewal:
            line.renewals[lookup] = None
            return
        self.queued -= 1
        self._leave(lookup, line)
        if not line.queued():
            self._turns.pop(line.key, None)

    def _leave(self, lookup: Lookup[W], line: _Line[W]) -> None:
        lookup.line = None
        del self._by_digest[lookup.digest]
        if not line.running and not line.queued():
            del self._lines[line.key]

    def _take_turns(self, line: _Line[W]) -> None:
        """Put a line behind the others, if it has something that may run."""
        if line.queued() and line.running < line.limit:
            self._turns.setdefault(line.key, line)
