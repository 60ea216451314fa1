from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.http1.pool_state import PoolState

WHICH = st.integers(0)


class Pooling(RuleBasedStateMachine):
    """Everything that can happen to a pool, in any order, beside a plain model of who waits for what."""

    def __init__(self):
        super().__init__()
        self.numbers = count()
        self.line = []
        self.ended = {}
        self.idle = []
        self.busy = []
        self.connecting = 0

    @initialize(limit=st.integers(1, 4))
    def begin(self, limit):
        self.pool = PoolState(limit)

    def connect_as_needed(self):
        while self.pool.must_connect():
            self.connecting += 1

    def end(self, waiter, how):
        assert waiter not in self.ended
        self.ended[waiter] = how

    def served(self, connection, waiter):
        if waiter is None:
            assert not self.line
            self.idle.append(connection)
        else:
            assert waiter == self.line.pop(0), "first come, first served"
            self.end(waiter, "served")
            self.busy.append(connection)

    @rule()
    def ask(self):
        waiter = f"waiter {next(self.numbers)}"
        connection = self.pool.ask(waiter)
        if connection is None:
            assert not self.idle
            self.line.append(waiter)
            self.connect_as_needed()
        else:
            assert connection == self.idle.pop(), "the one idle for the shortest time"
            self.end(waiter, "served")
            self.busy.append(connection)

    @precondition(lambda self: self.connecting)
    @rule()
    def connected(self):
        self.connecting -= 1
        connection = f"connection {next(self.numbers)}"
        self.served(connection, self.pool.connected(connection))

    @precondition(lambda self: self.connecting)
    @rule()
    def connect_failed(self):
        self.connecting -= 1
        waiter = self.pool.connect_failed()
        if waiter is not None:
            assert waiter == self.line.pop(0)
            self.end(waiter, "failed")
        self.connect_as_needed()

    @precondition(lambda self: self.busy)
    @rule(which=WHICH)
    def released(self, which):
        connection = self.busy.pop(which % len(self.busy))
        self.served(connection, self.pool.released(connection))

    @precondition(lambda self: self.busy)
    @rule(which=WHICH)
    def busy_one_is_lost(self, which):
        self.pool.lost(self.busy.pop(which % len(self.busy)))
        self.connect_as_needed()

    @precondition(lambda self: self.idle)
    @rule(which=WHICH)
    def idle_one_is_lost(self, which):
        self.pool.lost(self.idle.pop(which % len(self.idle)))
        self.connect_as_needed()

    @precondition(lambda self: self.line)
    @rule(which=WHICH)
    def withdraw(self, which):
        waiter = self.line.pop(which % len(self.line))
        assert self.pool.withdraw(waiter)
        self.end(waiter, "withdrawn")
        assert not self.pool.withdraw(waiter)

    @precondition(lambda self: self.ended)
    @rule(which=WHICH)
    def withdraw_what_ended(self, which):
        assert not self.pool.withdraw(list(self.ended)[which % len(self.ended)])

    @invariant()
    def books_and_model_agree(self):
        if not hasattr(self, "pool"):
            return
        assert list(self.pool.waiting) == self.line
        assert list(self.pool.idle) == self.idle
        assert self.pool.busy == len(self.busy)
        assert self.pool.connecting == self.connecting
        assert not set(self.idle) & set(self.busy)

    @invariant()
    def the_limit_is_kept(self):
        if hasattr(self, "pool"):
            assert self.pool.places <= self.pool.limit
            assert min(self.pool.connecting, self.pool.busy) >= 0

    @invariant()
    def nobody_waits_for_nothing(self):
        if self.line:
            assert self.connecting + len(self.busy) >= 1
            assert not self.idle


Pooling.TestCase.settings = settings(max_examples=150, deadline=None)
TestPooling = Pooling.TestCase
