"""What a slow client has not taken yet of its answer, so that the homeserver's worker is free long before (§3.5).

While the client's socket is full its answer gathers in a `BodyStore`. Once that holds as much as may be kept in memory, the
homeserver waits for the client a moment: a client on a good line takes it all by then, and no disk is used. Only a slow one's
answer goes on to the spool. The client must drain what waits for it at a minimum rate, measured past our own and the kernel's
buffers; it is not counted while nothing waits.
"""

import array
import asyncio
import fcntl
import socket
import termios
from typing import TYPE_CHECKING, Final

from proxy.identity.principal import Principal
from proxy.mechanisms.rate_floor import RateFloor
from proxy.spool.body_store import TAKEN, BodyStore
from proxy.upstream.bodies import Bodies

if TYPE_CHECKING:
    from proxy.downstream.client_socket import ClientSocket

_UNIT_BYTES: Final = 65_536
#: A line of 40 Mbit/s takes 256 KiB within it; longer would be time of a worker for everybody slower.
_PATIENCE_S: Final = 0.05


class Outbox:
    """One client's, from its socket being full until it has taken all. `floor` tells when it is too slow.

    `closes` is None until the answer is complete; then whether its end is the connection's.
    """

    __slots__ = (
        "_backlog_bytes",
        "_bodies",
        "_connection",
        "_lease",
        "_patience",
        "_principal",
        "_spools",
        "_store",
        "closes",
        "floor",
    )

    def __init__(
        self, connection: "ClientSocket", bodies: Bodies, principal: Principal | None, now: float
    ) -> None:
        self._connection = connection
        self._bodies = bodies
        self._principal = principal
        self._store: BodyStore | None = None
        self._lease = bodies.answer_lease(principal)  # of what the transport has
        self._spools = False
        self._patience: asyncio.TimerHandle | None = None
        self.floor: RateFloor = bodies.floor(principal, now)
        self.closes: bool | None = None
        self._backlog_bytes = self._waiting_bytes()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here; the transport and the kernel may still have some."""
        return self._store is None or self._store.taken_bytes == self._store.total_bytes

    def socket_is_full(self, now: float) -> None:
        """The transport has something that the kernel does not take."""
        self.floor.go_on(now)
        self._charge()

    def socket_has_room(self, now: float) -> None:
        """The kernel has taken it, and takes more."""
        self.floor.pause(now)
        self._charge()
        self.pump()

    def _charge(self) -> None:
        """Charge what the transport has; what memory has no room for, later."""
        lease, memory = self._lease, self._bodies.answers.memory
        missing = self._connection.transport.get_write_buffer_size() - lease.taken
        if missing > 0:
            memory.take(lease, missing)
        elif missing < 0:
            memory.give_back(lease, -missing)

    def write(self, data: bytes) -> bool:
        """Send a part of the answer, or keep it behind what waits; tell whether more may come now."""
        connection = self._connection
        # Not `if`: the kernel may have room again in the middle of it, and nothing would tell us to send what is kept then.
        while not connection.client_full and self.is_empty:
            rest = connection.send(data)
            self._backlog_bytes += len(data) - len(rest)
            if not rest:
                return True
            data = rest
        store = self._store
        if store is None:
            store = self._store = self._bodies.answer_store(self._principal)
            store.on_ready = self.pump
            store.on_room = self._connection.outbox_has_room
            store.on_failed = self._failed
        verdict = store.append(data)
        if self._spools or store.held_bytes < self._bodies.answers.memory_bytes:
            return verdict is TAKEN
        if self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(_PATIENCE_S, self._lose_patience)
        return False

    def _lose_patience(self) -> None:
        """The client is slow: from now on the homeserver does not wait for it."""
        self._patience = None
        self._spools = True
        self._connection.outbox_has_room()

    def _be_patient_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def finish(self, *, close: bool) -> None:
        """The answer is complete."""
        self.closes = close
        self._be_patient_no_longer()
        if self._store is not None:
            self._store.finish()

    def pump(self) -> None:
        """Write as much as the socket takes."""
        connection, store = self._connection, self._store
        while store is not None and not connection.client_full:
            data = store.take_next(_UNIT_BYTES)
            if not data:
                break
            rest = connection.send(data)
            self._backlog_bytes += len(data) - len(rest)
            if rest:
                store.put_back(rest)
        if (
            self._patience is not None
            and store is not None
            and 2 * store.held_bytes <= self._bodies.answers.memory_bytes
        ):
            self._be_patient_no_longer()
            connection.outbox_has_room()
        if not connection.client_full and self.is_empty:
            connection.outbox_drained()

    def too_slow(self, now: float) -> bool:
        """Tell whether the client drains more slowly than it must."""
        self._charge()
        holds_worker = False
        if self._store is not None:
            self._store.try_again()
            holds_worker = self.closes is None and self._store.is_blocked
        self.floor.moved(self._backlog_bytes - self._waiting_bytes(), now)
        self._bodies.hurry(self.floor, self._principal, now, holds_worker=holds_worker)
        return self.floor.too_slow(now)

    def end(self) -> None:
        """Drop what is left."""
        self._be_patient_no_longer()
        self._bodies.answers.memory.end(self._lease)
        if self._store is not None:
            self._store.end()

    def _failed(self, _: Exception) -> None:
        self._connection.outbox_lost()

    def _waiting_bytes(self) -> int:
        """Count what the transport and the kernel still have for the client."""
        transport = self._connection.transport
        sock = transport.get_extra_info("socket")
        return transport.get_write_buffer_size() + _unacknowledged(sock)


def _unacknowledged(sock: socket.socket) -> int:
    size = array.array("i", [0])
    try:
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, size)
    except OSError:
        return 0  # it is closed
    return size[0]
