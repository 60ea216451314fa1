"""A body store in any order of events: the same bytes, nobody waits for nothing, everything given back.

Operations of the disk run when the test says so, on real files without a name; the loop is turned by hand.
"""

import asyncio
import errno
import os
import random
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.mechanisms.byte_budget import ByteBudget
from proxy.spool import spool_file
from proxy.spool.body_store import BUDGET, FULL, TAKEN, BodyStore
from proxy.spool.spool import Spool
from proxy.spool.stores import BodyStores

KIB = 1_024
MEMORY_BYTES = 64 * KIB
BYTES = random.Random(1).randbytes(16_777_216)


@pytest.fixture(autouse=True, scope="module")
def short_segments():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool_file, "SEGMENT_BYTES", 600 * KIB)
        yield


class ByHand:
    """Threads that run an operation when the test says so, or fail it; closes never fail."""

    def __init__(self):
        self.jobs = []

    @property
    def in_flight(self):
        return len(self.jobs)

    def run(self, operation, done):
        self.jobs.append((operation, done))

    def step(self, which=0, error=None):
        """Run one operation, not always the oldest: a file's closes run beside its other operations."""
        operation, done = self.jobs.pop(which % len(self.jobs))
        if error is not None:
            done(None, error)
            return
        try:
            result = operation()
        except OSError as failure:
            done(None, failure)
        else:
            done(result, None)


class Body:
    """One store with a writer that obeys the verdicts and a reader, both noting what they are told."""

    def __init__(self, memory_total, disk_total, *, ends_when_told=None):
        self.threads = ByHand()
        self.spool = Spool("nowhere", open_file=lambda: os.memfd_create("spool"))
        self.spool.threads = self.threads
        self.memory = ByteBudget(memory_total)
        self.disk = ByteBudget(disk_total)
        stores = BodyStores(self.spool, memory=self.memory, disk=self.disk, memory_bytes=MEMORY_BYTES)
        self.store = BodyStore(stores, "flow", "address", confirmed=True)
        self.store.on_ready = lambda: self.told("ready")
        self.store.on_room = lambda: self.told("room")
        self.store.on_budget = lambda: self.told("budget")
        self.store.on_failed = lambda _: self.told("failed")
        self.ends_when_told = ends_when_told
        self.inside = self.ended = False
        self.verdict = TAKEN
        self.reads = self.waits = False
        self.failures = 0
        self.sent = self.got = 0
        self.wrong = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.wrong.append(context))

    @contextmanager
    def calling(self):
        self.inside = True
        yield
        self.inside = False

    def told(self, what):
        assert not self.inside, "no callback inside a call"
        assert not self.ended, "no callback after the end"
        if what == "ready":
            assert self.waits
            self.waits = False
        elif what == "room":
            assert self.verdict is not TAKEN
            self.verdict = TAKEN
        elif what == "budget":
            assert self.verdict is FULL
            self.verdict = BUDGET
        else:
            self.failures += 1
        if what == self.ends_when_told:
            self.ended = True
            self.store.end()

    def append(self, size):
        if self.verdict is TAKEN and not (self.store.complete or self.failures or self.ended):
            data = BYTES[self.sent : self.sent + size]
            self.sent += len(data)
            with self.calling():
                self.verdict = self.store.append(data)

    def take(self, size, returned=0):
        self.reads = True
        if self.waits or self.failures or self.ended:
            return
        with self.calling():
            data = self.store.take_next(size)
            assert len(data) <= size
            assert data == BYTES[self.got : self.got + len(data)]
            self.got += len(data)
            if returned and len(data) > returned:
                self.store.put_back(data[-returned:])
                self.got -= returned
            if not data and not self.store.at_end:
                self.waits = True
            assert self.store.at_end == (self.store.complete and self.got == self.sent)

    def take_and_return(self, size):
        """As a socket takes a part of what it was given."""
        self.take(64 * KIB, size)

    def try_again(self, _):
        with self.calling():
            self.store.try_again()

    def finish(self):
        with self.calling():
            self.store.finish()

    def check(self):
        assert 0 <= self.memory.taken <= self.memory.total_bytes
        assert 0 <= self.disk.taken <= self.disk.total_bytes
        assert self.disk.taken >= self.spool.disk_bytes
        if not self.threads.jobs:
            assert self.disk.taken == self.spool.disk_bytes
        if not self.ended and not self.failures:
            # One piece beyond, and what a read brings; plus what is in the head.
            assert self.store.held_bytes <= self.sent - self.got
            assert self.store.held_bytes <= MEMORY_BYTES + 2 * 1_048_576 + 2 * 300 * KIB

    async def end(self):
        with self.calling():
            self.store.end()
            self.store.end()
        self.ended = True
        await asyncio.sleep(0)
        while self.threads.jobs:
            self.check()
            self.threads.step(-1)
            await asyncio.sleep(0)
        assert self.memory.taken == self.disk.taken == 0
        assert self.spool.open_files == self.spool.disk_bytes == 0
        assert self.wrong == []


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([300 * KIB, 64 * KIB, 16 * KIB, 700, 1])),
        st.tuples(st.just("take"), st.sampled_from([1_024 * KIB, 64 * KIB, 5_000, 1])),
        st.tuples(st.just("take_and_return"), st.sampled_from([100 * KIB, 5_000, 1])),
        st.tuples(st.just("operation"), st.integers(0, 2)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.just("try_again"), st.just(0)),
    ),
    max_size=60,
)
MEMORY = st.sampled_from([65_536 * KIB, 600 * KIB, 100 * KIB, 0])
DISK = st.sampled_from([65_536 * KIB, 1_400 * KIB, 700 * KIB, 300 * KIB, 0])
SPOOLED = st.integers(0, 8)  # pieces that are on disk, as far as they may, before events begin


async def play(body, spooled, events):
    for _ in range(spooled):
        body.append(300 * KIB)
        await settle(body)
    for what, size in events:
        if what == "operation":
            if body.threads.jobs:
                body.threads.step(size)
        elif what == "turn":
            await asyncio.sleep(0)
        else:
            getattr(body, what)(size)
        body.check()


async def settle(body):
    """Run all operations and turns there are."""
    await asyncio.sleep(0)
    while body.threads.jobs:
        body.threads.step()
        await asyncio.sleep(0)
        body.check()


async def read_to_the_end(body):
    for _ in range(10_000):
        body.take(64 * KIB)
        if body.waits:
            await settle(body)
            assert not body.waits, "a reader waits while bytes are there"
        await asyncio.sleep(0)
        if body.store.at_end:
            return
    raise AssertionError("the reader never came to the end")


@given(MEMORY, DISK, SPOOLED, EVENTS)
@settings(max_examples=100)
def test_any_order_of_events_gives_the_same_bytes_in_order(memory, disk, spooled, events):
    async def scenario():
        body = Body(memory, disk)
        await play(body, spooled, events)
        body.finish()
        await read_to_the_end(body)
        assert body.got == body.sent
        await body.end()

    asyncio.run(scenario())


@given(MEMORY, DISK, EVENTS)
@settings(max_examples=100)
def test_a_body_is_given_whole_or_not_at_all_and_then_by_parts(memory, disk, events):
    async def scenario():
        body = Body(memory, disk)
        await play(body, 0, events)
        body.finish()
        touched = body.got or body.waits
        with body.calling():
            whole = body.store.take_whole()
        if whole is None:
            assert touched or body.store._file is not None
            await read_to_the_end(body)
        else:
            assert whole == BYTES[: body.sent]
            assert body.store.at_end
        await body.end()

    asyncio.run(scenario())


@given(MEMORY, DISK, SPOOLED, EVENTS)
@settings(max_examples=100)
def test_a_paused_writer_gets_room_without_the_reader_or_is_told_to_let_it_begin(
    memory, disk, spooled, events
):
    async def scenario():
        body = Body(memory, disk)
        await play(body, spooled, events)
        await settle(body)
        assert body.verdict is not FULL
        for _ in range(10_000):
            if body.verdict is TAKEN:
                break
            body.take(64 * KIB)
            await settle(body)
        assert body.verdict is TAKEN, "a reader that takes all makes room"
        await body.end()

    asyncio.run(scenario())


@given(MEMORY, DISK, SPOOLED, EVENTS)
@settings(max_examples=100)
def test_an_end_at_any_moment_gives_everything_back(memory, disk, spooled, events):
    async def scenario():
        body = Body(memory, disk)
        await play(body, spooled, events)
        await body.end()
        body.append(700)
        body.store.append(b"late")
        assert body.store.take_next(1) == b""

    asyncio.run(scenario())


@given(MEMORY, DISK, SPOOLED, EVENTS, st.sampled_from(["ready", "room", "budget"]))
@settings(max_examples=100)
def test_an_end_from_within_any_callback_gives_everything_back(memory, disk, spooled, events, what):
    async def scenario():
        body = Body(memory, disk, ends_when_told=what)
        await play(body, spooled, events)
        await settle(body)
        await body.end()
        assert body.spool.failures_total == 0

    asyncio.run(scenario())


@given(EVENTS, st.integers(0, 5), st.sampled_from([errno.ENOSPC, errno.EIO, errno.EROFS]))
@settings(max_examples=100)
def test_writes_that_fail_lose_nothing(events, good, number):
    async def scenario():
        body = Body(65_536 * KIB, 65_536 * KIB)
        left = good

        def run(operation, done, really_run=body.threads.run):
            nonlocal left
            writes = body.store._unit is not None
            left -= writes
            really_run(fails if writes and left < 0 else operation, done)

        def fails():
            raise OSError(number, os.strerror(number))

        body.threads.run = run
        await play(body, 0, [("append", 300 * KIB), *events])
        body.finish()
        await read_to_the_end(body)
        assert body.got == body.sent
        assert not body.failures
        await body.end()

    asyncio.run(scenario())


@given(EVENTS)
@settings(max_examples=60)
def test_a_read_that_fails_is_told_once(events):
    async def scenario():
        body = Body(65_536 * KIB, 65_536 * KIB)
        await play(body, 3, [])
        body.finish()
        while not body.waits:
            body.take(1_024 * KIB)
        body.threads.step(error=OSError(errno.EIO, "gone"))
        assert body.failures == 1
        await play(body, 0, events)
        await settle(body)
        assert body.failures == 1
        assert body.waits, "nothing is ready after that"
        await body.end()

    asyncio.run(scenario())


def test_a_writer_that_was_paused_for_the_disk_learns_that_it_is_full():
    async def scenario():
        body = Body(65_536 * KIB, 700 * KIB)
        while body.verdict is TAKEN:
            body.append(300 * KIB)
        assert body.verdict is FULL
        body.threads.step()
        assert body.verdict is BUDGET
        await body.end()

    asyncio.run(scenario())


def test_memory_and_space_an_operation_uses_are_charged_until_it_ends_and_it_is_spared_if_it_has_not_begun():
    async def scenario():
        body = Body(65_536 * KIB, 65_536 * KIB)
        body.append(300 * KIB)
        body.append(64 * KIB)
        body.store.end()
        assert body.memory.taken == body.disk.taken == 300 * KIB
        await body.end()
        assert body.spool.written_total == 0

    asyncio.run(scenario())


async def reads_a_segment_to_its_end(body):
    """Bring a body to where a close and a write are in flight together."""
    await play(body, 8, [])
    for _ in range(20):
        while not body.waits:
            body.take(1_024 * KIB)
        body.append(300 * KIB)
        body.threads.step()
        if len(body.threads.jobs) == 2:
            return
        await settle(body)
    raise AssertionError("no segment was ever read to its end")


def test_space_that_becomes_free_during_a_write_leaves_the_write_charged():
    async def scenario():
        body = Body(65_536 * KIB, 65_536 * KIB)
        await reads_a_segment_to_its_end(body)
        body.threads.step(0)
        body.check()
        await settle(body)
        await body.end()

    asyncio.run(scenario())


def test_an_end_from_within_a_callback_waits_for_the_write_just_begun():
    async def scenario():
        body = Body(65_536 * KIB, 65_536 * KIB)
        await play(body, 3, [])
        while not body.waits:
            body.take(1_024 * KIB)
        body.append(300 * KIB)
        body.ends_when_told = "ready"
        body.threads.step()
        assert body.ended
        assert len(body.threads.jobs) == 1, "the write; the file is closed after it"
        await body.end()

    asyncio.run(scenario())


def test_only_what_is_written_is_charged_also_where_the_next_piece_did_not_fit():
    async def scenario():
        body = Body(65_536 * KIB, 65_536 * KIB)
        for size in (64, 256, 250, 250, 250, 300):
            body.append(size * KIB)
        await settle(body)
        assert body.disk.taken == body.spool.disk_bytes == (256 + 750 + 300) * KIB
        await body.end()

    asyncio.run(scenario())


def test_an_end_before_a_callback_that_is_due_is_quiet():
    async def scenario():
        body = Body(100 * KIB, 0)
        body.append(64 * KIB)
        body.append(64 * KIB)
        assert body.verdict is BUDGET
        body.take(64 * KIB)
        await body.end()

    asyncio.run(scenario())
