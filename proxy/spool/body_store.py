"""One body on its way, held in memory and in a spool file while nobody takes it, so that it holds no worker (§3.1, §3.5).

Bytes come out in the order they went in, through three places: the *head* in memory, the file, the *tail* in memory that
is to be written. Up to `memory_bytes` everything stays in the head and no thread is ever used. Beyond, what is new gathers in
the tail and is written in units of 256 KiB to 1 MiB; the writer is told to pause while a mebibyte is unwritten. A reader that
has caught up with the file gets the tail without a detour over the disk.

Every byte is taken, since it is in memory already; the verdict tells the writer whether to read on:

- TAKEN: read on.
- FULL: pause; `on_room` follows, however slow the reader is.
- BUDGET: pause; nothing more can be kept (the spool budget is used up, or the disk is full or broken), so let the reader
  begin: `on_room` follows when it has made room. A writer paused by FULL learns of this by `on_budget`.

Progress does not depend on budgets: a piece that memory has no room for is written at once, and where that cannot be either
it waits for its own reader, the writer paused. So what exceeds a budget is at most one read for each body.

Callbacks come from the loop, never inside a call of the store and never after `end`. For one thread only.
"""

import asyncio
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Final

from proxy.mechanisms.byte_budget import ByteLease
from proxy.spool.pieces import Piece, Pieces
from proxy.spool.spool_file import UNIT_BYTES, SpoolFile
from proxy.spool.stores import BodyStores

_GATHER_BYTES: Final = 262_144  # written when this much is in the tail: 0.26 µs of hop per KiB
_READ_BYTES: Final = 262_144  # read from the file at a time: memory of a slow reader against hops
_LEAST_READ_BYTES: Final = 16_384  # where memory has no room for more
_MAX_UNWRITTEN_BYTES: Final = UNIT_BYTES


class Verdict(Enum):
    """What `append` tells the writer; see the module."""

    TAKEN = "taken"
    FULL = "full"
    BUDGET = "budget"


TAKEN: Final = Verdict.TAKEN
FULL: Final = Verdict.FULL
BUDGET: Final = Verdict.BUDGET


class BodyStore:
    """One body, charged to a flow and an address (None for a limit that does not apply, see `ByteLease`).

    Set the callbacks that are needed, and call `end` when it is done with, in every case.
    """

    __slots__ = (
        "_blocked", "_disk_lease", "_ended", "_failed", "_file", "_head", "_held", "_memory_lease", "_reading_bytes",
        "_soon", "_starved", "_stores", "_tail", "_told", "_unit", "_unit_bytes", "_write_failed", "complete", "on_budget",
        "on_failed", "on_ready", "on_room", "taken_bytes", "total_bytes",
    )  # fmt: skip

    def __init__(
        self, stores: BodyStores, flow: Hashable | None, address: Hashable | None, *, confirmed: bool
    ) -> None:
        self.on_ready: Callable[[], None] = _nobody
        self.on_room: Callable[[], None] = _nobody
        self.on_budget: Callable[[], None] = _nobody
        self.on_failed: Callable[[Exception], None] = _nobody_for
        self.total_bytes = 0  # appended
        self.taken_bytes = 0  # by the reader
        self.complete = False
        self._stores = stores
        self._memory_lease = ByteLease(flow, address, confirmed=confirmed)
        self._disk_lease: ByteLease | None = None
        self._head = Pieces()
        self._tail = Pieces()
        self._file: SpoolFile | None = None
        self._unit: list[Piece] | None = None  # being written
        self._unit_bytes = 0
        self._reading_bytes = 0  # asked of the file
        self._held = 0  # in memory or about to be; more than is charged only by what memory had no room for
        self._told = TAKEN
        self._blocked = False  # the tail cannot be written
        self._starved = False  # the reader waits for `on_ready`
        self._soon = False
        self._write_failed = False
        self._failed = False
        self._ended = False
        stores.open += 1

    # For the writer.

    def append(self, data: bytes) -> Verdict:
        """Take the next bytes; the verdict tells whether to read on."""
        if self._ended or self._failed:
            return TAKEN
        size = len(data)
        self.total_bytes += size
        self._held += size
        charged = self._charge()
        file = self._file
        if not self._tail.size and (file is None or not (file.unread_bytes or file.busy)):
            head = self._head
            if self._starved or (charged and head.size + size <= self._stores.memory_bytes):
                head.append(data)
                if self._starved:
                    self._notify_soon()
                self._told = TAKEN
                return TAKEN
        self._tail.append(data)
        self._advance()
        self._told = told = self._verdict()
        return told

    def finish(self) -> None:
        """The body is complete."""
        self.complete = True
        if self._starved:
            self._notify_soon()

    def move(self, flow: Hashable | None, *, confirmed: bool) -> bool:
        """Charge what is spooled to another flow from now on; False, and nothing changes, where that has no room."""
        stores, lease = self._stores, self._disk_lease
        if lease is not None and not stores.disk.move(lease, flow, confirmed=confirmed):
            return False
        return stores.memory.move(self._memory_lease, flow, confirmed=confirmed)

    # For the reader.

    def take_next(self, max_bytes: int) -> bytes:
        """Give the next bytes, `max_bytes` at most; none if there are none now: `on_ready` follows, unless `at_end`."""
        if self._failed or self._ended:
            return b""
        if not self._head.size and not self._refill():
            if not self.at_end:
                self._starved = True
                self._advance()
            return b""
        data = self._head.take(max_bytes)
        self.taken_bytes += len(data)
        self._let_go(len(data))
        if self._told is not TAKEN and self._has_room():
            self._notify_soon()
        return data

    def take_whole(self) -> bytes | None:
        """Give a complete body that nothing was taken of; None, and nothing changes, where a file has or had some of it."""
        if not self.complete or self.taken_bytes or self._file is not None or self._ended:
            return None
        pieces = []
        while data := self.take_next(self.total_bytes):
            pieces.append(data)
        return b"".join(pieces)

    def put_back(self, data: bytes) -> None:
        """Take back the end of what `take_next` just gave."""
        self._head.put_back([data])
        self.taken_bytes -= len(data)
        self._held += len(data)
        self._charge()

    @property
    def at_end(self) -> bool:
        """Whether the body is complete and all of it was taken."""
        return self.complete and self.taken_bytes == self.total_bytes

    # For the owner.

    @property
    def held_bytes(self) -> int:
        """What is in memory."""
        return self._held

    @property
    def is_blocked(self) -> bool:
        """Whether nothing more can be kept."""
        return self._blocked

    def try_again(self) -> None:
        """Charge and write what could not be, if there is room by now: others may have made some."""
        if self._ended or self._failed:
            return
        if self._blocked and self._stores.spool.may_open():
            self._write_failed = False
            self._advance()
            self._notify_soon()
        else:
            self._charge()

    def end(self) -> None:
        """Drop what is left and give everything back; memory and space that an operation still uses, when that has ended."""
        if self._ended:
            return
        self._ended = True
        self._stores.open -= 1
        self._head = self._tail = Pieces()
        self.on_ready = self.on_room = self.on_budget = _nobody
        self.on_failed = _nobody_for
        if self._file is None:
            self.file_closed()
        else:
            self._held = self._unit_bytes + self._reading_bytes
            self._let_go(0)
            self._file.close()

    # From the file.

    def file_written(self) -> None:
        """A unit is on disk; a reader that waits for just that one gets it from memory."""
        file, unit, size = self._file, self._unit, self._unit_bytes
        if file is None or unit is None:
            raise AssertionError("a unit is written only by a file")
        self._unit = None
        self._unit_bytes = 0
        if self._starved and file.unread_bytes == size:
            file.skip(size)
            self._tail.put_back(unit)
        else:
            self._let_go(size)
        self._return_space()
        self._went_on()

    def file_read(self, data: bytes) -> None:
        """The next bytes of the file are in memory."""
        self._reading_bytes = 0
        self._head.append(data)
        self._return_space()
        self._went_on()

    def file_shrunk(self) -> None:
        """Space is free again: what could not be written perhaps can."""
        self._return_space()
        self._went_on()

    def file_failed(self, error: Exception) -> None:
        """An operation failed: a unit not written is still here, so only the writer is slowed; one not read is lost."""
        if self._unit is not None:
            self._tail.put_back(self._unit)
            self._unit = None
            self._unit_bytes = 0
            self._write_failed = True
            self._return_space()
            self._went_on()
            return
        self._failed = True
        self.on_failed(error)

    def file_closed(self) -> None:
        """Nothing is on disk any more."""
        self._stores.memory.end(self._memory_lease)
        if self._disk_lease is not None:
            self._stores.disk.end(self._disk_lease)

    # How bytes move.

    def _refill(self) -> bool:
        """Move the tail to the empty head, where nothing lies between them."""
        file = self._file
        if file is not None and (file.unread_bytes or file.busy):
            return False
        self._head, self._tail = self._tail, self._head
        self._blocked = False
        return self._head.size > 0

    def _advance(self) -> None:
        """Begin the next operation, if one is due and none is in flight: reading first, since somebody waits for it."""
        file = self._file
        if file is not None and file.busy:
            return
        if self._starved and not self._head.size and file is not None and file.unread_bytes:
            self._read(file)
            return
        self._blocked = False
        size = self._tail.size
        if size >= _GATHER_BYTES or (size and not self._charge()):
            self._write()

    def _read(self, file: SpoolFile) -> None:
        size = file.readable(_READ_BYTES)
        self._held += size
        if not self._charge() and size > _LEAST_READ_BYTES:
            self._held -= size - _LEAST_READ_BYTES
            size = _LEAST_READ_BYTES
        self._reading_bytes = size
        file.read(size)

    def _write(self) -> None:
        size = min(self._tail.size, UNIT_BYTES)
        lease = self._disk_lease
        if lease is None:
            of = self._memory_lease
            self._disk_lease = lease = ByteLease(of.flow, of.address, confirmed=of.confirmed)
        growth = size if self._file is None else self._file.growth(size)
        if self._write_failed or not self._stores.disk.take(lease, growth):
            self._blocked = True
            return
        if self._file is None:
            self._file = SpoolFile(self._stores.spool, self)
            self._stores.spooled_total += 1
        unit = self._tail.take_pieces(size)
        self._unit = unit
        self._unit_bytes = sum(map(len, unit))
        self._file.write(unit)

    def _went_on(self) -> None:
        """After an operation: begin the next, then tell who waits."""
        if self._starved and not self._head.size:
            self._refill()
        self._advance()
        self._notify()

    # Who is told what.

    def _verdict(self) -> Verdict:
        if self._blocked:
            return BUDGET
        unwritten = self._tail.size + self._unit_bytes
        if unwritten >= _MAX_UNWRITTEN_BYTES or (unwritten and not self._charge()):
            return FULL
        return TAKEN

    def _has_room(self) -> bool:
        if self._blocked:
            return self._held <= self._stores.memory_bytes and self._charge()
        unwritten = self._tail.size + self._unit_bytes
        return not unwritten or (unwritten <= _MAX_UNWRITTEN_BYTES // 2 and self._charge())

    def _notify_soon(self) -> None:
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        self._soon = False
        if self._starved and (self._head.size or self.at_end):
            self._starved = False
            self.on_ready()
        if self._told is TAKEN or self.complete or self._failed or self._ended:
            return
        if self._has_room():
            self._told = TAKEN
            self.on_room()
        elif self._blocked and self._told is FULL:
            self._told = BUDGET
            self.on_budget()

    # What is charged.

    def _charge(self) -> bool:
        """Charge to memory what is not yet; tell whether all is."""
        missing = self._held - self._memory_lease.taken
        return missing <= 0 or self._stores.memory.take(self._memory_lease, missing)

    def _let_go(self, size: int) -> None:
        self._held -= size
        over = self._memory_lease.taken - self._held
        if over > 0:
            self._stores.memory.give_back(self._memory_lease, over)

    def _return_space(self) -> None:
        """Give back what the file does not take up any more, or did not come to; not while it may still come to it."""
        file, lease = self._file, self._disk_lease
        if file is None or lease is None or file.busy:
            return
        if lease.taken > file.disk_bytes:
            self._stores.disk.give_back(lease, lease.taken - file.disk_bytes)


def _nobody() -> None:
    """Nobody is to be told."""


def _nobody_for(_: Exception) -> None:
    """Nobody is to be told."""
