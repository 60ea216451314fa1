from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.identity.lookups import Wait
from proxy.identity.principal import CONFIRMED
from tests.fakes.whoami import Site

WHICH = st.integers(0)
TOKENS = st.sampled_from(
    [b"alice-1", b"alice-2", b"bob-1", b"guest", b"irc", b"garbage-1", b"garbage-2", b"garbage-3"]
)
ADDRESSES = st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "203.0.113.1"])
QUERIES = st.sampled_from(
    [b"", b"", b"user_id=@_irc_a:x", b"user_id=@alice:x", b"user_id=@ircbot:x", b"user_id=@nobody:x"]
)
LIMIT, PER_ADDRESS, TIMEOUT_S, MAX_ENTRIES, MAX_QUEUED, MAX_QUEUED_PER_KEY = 3, 2, 5.0, 4, 8, 3
ACCOUNTS = {b"alice": "@alice:x", b"bob": "@bob:x", b"guest": "@1:x", b"irc": "@ircbot:x"}


class Asking(RuleBasedStateMachine):
    """Requests, look-ups, logouts and outages in any order."""

    def __init__(self):
        super().__init__()
        self.site = Site(
            exempt_networks=["203.0.113.0/24"],
            lookups=LIMIT,
            lookups_per_address=PER_ADDRESS,
            timeout_seconds=TIMEOUT_S,
            max_entries=MAX_ENTRIES,
        )
        self.lookups = self.site.identities._lookups
        self.lookups.max_queued, self.lookups.max_queued_per_key = MAX_QUEUED, MAX_QUEUED_PER_KEY
        self.open = {}
        self.log_in()

    def ended(self, wait):
        """A wait ends once, with a principal."""
        del self.open[wait]
        self.check(wait.principal, wait.token, wait.client)

    def check(self, principal, token, client):
        assert principal is not None
        assert principal.client is client
        if principal.standing == CONFIRMED:
            assert principal.account == ACCOUNTS[token.partition(b"-")[0]]
            assert principal.appservice <= (token == b"irc")
            assert principal.guest == (token == b"guest")
        else:
            assert principal.account is None
            assert principal.flow == client.key

    @rule()
    def log_in(self):
        homeserver = self.site.homeserver
        homeserver.user(b"alice-1", "@alice:x")
        homeserver.user(b"alice-2", "@alice:x")
        homeserver.user(b"bob-1", "@bob:x")
        homeserver.user(b"guest", "@1:x", "guest_device", guest=True)
        homeserver.appservice(b"irc", "@ircbot:x", {"@_irc_a:x"})

    @rule(token=TOKENS)
    def log_out(self, token):
        self.site.homeserver.users.pop(token, None)
        self.site.identities.drop(token)

    @rule(failing=st.sampled_from([None, None, 0, 429, 503, 401, 403]))
    def homeserver_changes(self, failing):
        self.site.homeserver.failing = failing

    @rule(token=TOKENS, address=ADDRESSES, query=QUERIES)
    def request(self, token, address, query):
        found = self.site.request(token, address, query, waiter=object())
        if isinstance(found, Wait):
            assert found not in self.open
            self.open[found] = self.site.now
        else:
            self.check(found, token, self.site.keys.resolve(address))

    @precondition(lambda self: self.site.running)
    @rule(which=WHICH)
    def a_lookup_ends(self, which):
        for wait in self.site.answer(self.site.running[which % len(self.site.running)]):
            self.ended(wait)

    @precondition(lambda self: self.open)
    @rule(which=WHICH)
    def a_client_leaves(self, which):
        wait = list(self.open)[which % len(self.open)]
        del self.open[wait]
        assert self.site.identities.withdraw(wait)
        assert not self.site.identities.withdraw(wait)
        self.site.start()

    @rule(seconds=st.sampled_from([0.5, 2.0, 5.0, 10.0, 60.0, 120.0, 90_000.0]))
    def time_passes(self, seconds):
        self.site.now += seconds
        due = [wait for wait, since in self.open.items() if since + TIMEOUT_S <= self.site.now]
        assert self.site.identities.expired(self.site.now) == due
        for wait in due:
            self.ended(wait)
        self.site.start()

    @invariant()
    def the_bounds_hold(self):
        running = self.site.running
        assert len(running) == self.lookups.running <= LIMIT
        assert len({lookup.digest for lookup in running}) == len(running), "one at a time for each token"
        keys = [lookup.client.key for lookup in running]
        assert all(keys.count(key) <= PER_ADDRESS for key in keys if key != "203.0.113.1")
        figures = self.site.identities.statistics()
        assert figures.known <= MAX_ENTRIES
        assert figures.queued <= MAX_QUEUED
        assert all(line.queued() <= MAX_QUEUED_PER_KEY for line in self.lookups._lines.values())

    @invariant()
    def nobody_is_lost(self):
        assert list(self.lookups._waits) == list(self.open)
        for wait in self.open:
            assert wait in wait.lookup.waits
            assert self.lookups.of(wait.digest) is wait.lookup
        assert [wait.until for wait in self.open] == [since + TIMEOUT_S for since in self.open.values()]

    @invariant()
    def no_place_stays_empty_that_somebody_could_use(self):
        lines = self.lookups._lines.values()
        assert sum(line.queued() for line in lines) == self.lookups.queued
        if self.lookups.running < LIMIT:
            assert not [line for line in lines if line.queued() and line.running < line.limit]

    @invariant()
    def the_books_hold_nothing_else(self):
        lookups = set(self.lookups._by_digest.values())
        assert len(lookups) == self.lookups.running + self.lookups.queued
        assert all(line.running or line.queued() for line in self.lookups._lines.values())
        cache = self.site.identities._cache
        by_key = cache._others_by_key
        assert sorted(digest for mine in by_key.values() for digest in mine) == sorted(cache._others)
        assert all(by_key.values())

    def teardown(self):
        self.site.homeserver.failing = None
        while self.site.running:
            for wait in self.site.answer():
                self.ended(wait)
        assert not self.open
        assert self.lookups.queued == 0
        assert not self.lookups._lines
        self.site.now += 10
        for token in (b"alice-1", b"bob-1"):
            self.site.homeserver.user(token, ACCOUNTS[token.partition(b"-")[0]])
            assert self.site.principal(token).flow.startswith("@"), "what was refused is asked about again"


Asking.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestAsking = Asking.TestCase
