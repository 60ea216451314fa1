"""TLS between a client's socket and its connection: a protocol to the one, a transport to the other.

`asyncio`'s own TLS costs 44 to 265 KiB for each parked connection and knows no deadline for the ClientHello. Here OpenSSL
reads from and writes to two buffers in memory that all connections share. They are empty whenever anything but this module
runs: what one operation leaves in them is taken out before it ends. So a parked connection holds OpenSSL's own state alone.

Nothing of OpenSSL's is made before a whole ClientHello has come, and it is made when `handshakes` says so.
"""

import asyncio
import ssl
from typing import Any, Final, cast

from proxy.downstream.client_socket import large_buffer
from proxy.downstream.connection import ClientConnection
from proxy.downstream.handshakes import Handshakes
from proxy.downstream.tls_context import TlsContexts
from proxy.http1.client_hello import MAX_BYTES, BadClientHelloError, is_whole
from proxy.http1.life_cycle import State
from proxy.identity.client_key import Client

_HELLO, _HANDSHAKE = State.HELLO, State.HANDSHAKE
_INCOMING: Final = ssl.MemoryBIO()
_OUTGOING: Final = ssl.MemoryBIO()
#: All connections read into this; as much at once as their connection may take.
_BUFFER: Final = memoryview(bytearray(65_536))
_SMALL_BUFFER: Final = _BUFFER[:16_384]


def _large(sizehint: int) -> memoryview:  # noqa: ARG001  (the protocol's signature)
    return _BUFFER


def _small(sizehint: int) -> memoryview:  # noqa: ARG001  (the protocol's signature)
    return _SMALL_BUFFER


class TlsLayer(asyncio.BufferedProtocol):
    """See the module. `line_key` is what it stands in the line of handshakes under, while it does.

    What it keeps is the hello before the handshake, and behind that what a paused connection has not read.
    """

    __slots__ = (
        "_connection", "_contexts", "_dropping", "_ended", "_handshakes", "_kept", "_notified", "_paused", "_raw", "_tls",
        "get_buffer", "line_key",
    )  # fmt: skip

    def __init__(self, connection: ClientConnection, contexts: TlsContexts, handshakes: Handshakes) -> None:
        self.get_buffer = _small  # type: ignore[method-assign]  # of each connection its own
        self._connection = connection
        self._contexts = contexts
        self._handshakes = handshakes
        self._raw: asyncio.Transport = cast(asyncio.Transport, None)
        self._tls: ssl.SSLObject | None = None
        self.line_key: str | None = None
        self._kept = b""
        self._paused = False
        self._notified = False  # the client's stream has ended in TLS
        self._ended = False  # the connection knows of its end
        self._dropping = False  # our stream has ended: what still comes is of no use

    # From the event loop: the protocol of the socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the client's first word."""
        self._raw = cast(asyncio.Transport, transport)
        self._connection.connection_made(cast(asyncio.Transport, self))

    def stand_on(self, transport: asyncio.Transport, data: bytes) -> None:
        """Begin on a connection that had something else before; `data` came behind it."""
        self._raw = transport
        self._connection.transport = cast(asyncio.Transport, self)
        transport.set_protocol(self)
        if data:
            self._read_hello(data)

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read out of the shared buffer, and use it."""
        if self._dropping:
            self._connection.drop(nbytes)
        elif self._tls is not None:
            self._advance(_BUFFER[:nbytes])
        else:
            self._read_hello(_BUFFER[:nbytes].tobytes())

    def eof_received(self) -> bool:
        """The client sends no more, with or without having said so in TLS."""
        if self._ended:
            return True  # told already
        self._ended = True
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let everything go that is still held."""
        connection = self._connection
        self._handshakes.over(self)
        self._tls = None
        self._kept = b""
        connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self._connection.resume_writing()

    # The handshake.

    def _read_hello(self, data: bytes) -> None:
        """Stand in line once all of it has come; what comes while we wait there is kept, too."""
        self._kept += data
        connection = self._connection
        try:
            if connection.state is not _HELLO:
                fits = len(self._kept) <= 2 * MAX_BYTES
            else:
                fits = True
                if is_whole(self._kept):
                    connection.hello_complete()
                    self._handshakes.arrive(self, cast(Client, connection.asker))
        except BadClientHelloError:
            fits = False
        if not fits:
            self._handshakes.turned_away.count("hello")
            connection.turn_away()

    def begin(self) -> None:
        """It is its turn."""
        self._tls = self._contexts.context.wrap_bio(_INCOMING, _OUTGOING, server_side=True)
        cipher, self._kept = self._kept, b""
        self._advance(cipher)

    def give_up(self) -> None:
        """Others wait for its place."""
        self._handshakes.over(self)
        self._connection.turn_away()

    def _shake(self, tls: ssl.SSLObject, cipher: memoryview | bytes) -> None:
        """Go on with the handshake; what comes behind its end is kept."""
        failed = done = False
        try:
            _INCOMING.write(cipher)
            tls.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, OSError, ValueError):
            failed = True
        finally:
            self._kept = _INCOMING.read()
            self._send()
        if failed:
            self._handshakes.turned_away.count("handshake")
            self._handshakes.over(self)
            self._connection.turn_away(in_words=True)
        elif done:
            self._handshakes.done_total += 1
            self._handshakes.over(self)
            self._connection.begin_http(anew=True)

    # Reading.

    def _advance(self, cipher: memoryview | bytes) -> None:
        """Use what was kept and what was read, as far as the connection reads."""
        tls = self._tls
        connection = self._connection
        if tls is None or self._ended:
            return
        if connection.state is _HANDSHAKE:
            self._shake(tls, cipher)
            if connection.state is _HANDSHAKE or not self._kept:
                return
            cipher = b""
        while not self._paused and not self._dropping and not self._raw.is_closing():
            if self._kept:
                cipher = self._kept + cipher
            size = self._decrypt(tls, cipher)
            cipher = b""
            if size:
                connection.buffer_updated(size)
            if self._notified and not self._ended:
                self._ended = True
                if not connection.eof_received():
                    self.close()
                return
            if not self._kept and not tls.pending():
                return
        if self._paused and cipher:
            self._kept += cipher

    def _decrypt(self, tls: ssl.SSLObject, cipher: memoryview | bytes) -> int:
        """Decrypt into the connection's buffer, and give how many bytes are there; what is beyond them is kept."""
        buffer = self._connection.get_buffer(-1)
        size = 0
        try:
            if cipher:
                _INCOMING.write(cipher)
            while size < len(buffer):
                read = cast(int, tls.read(len(buffer) - size, buffer[size:]))
                if not read:
                    self._notified = True
                    break
                size += read
                if not _INCOMING.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            size = 0
            self._raw.abort()  # forged or broken: nothing of it is believed
        finally:
            self._kept = _INCOMING.read() if _INCOMING.pending else b""
            self._send()
        return size

    def _go_on(self) -> None:
        """The connection reads again."""
        tls = self._tls
        if tls is not None and (self._kept or tls.pending()):
            self._advance(b"")

    @property
    def unread_bytes(self) -> int:
        """How much has been read from the socket and not been given to the connection, in TLS's measure."""
        return len(self._kept) + (0 if self._tls is None else self._tls.pending())

    # For the connection: its transport.

    def write(self, data: bytes) -> None:
        """Encrypt, and send."""
        tls = self._tls
        if tls is None or self._dropping or not data or self._raw.is_closing():
            return
        try:
            sent = tls.write(data)
            while sent < len(data):
                sent += tls.write(data[sent:])
        except ssl.SSLError:
            self._raw.abort()
        finally:
            self._send()

    def _send(self) -> None:
        if _OUTGOING.pending:
            data = _OUTGOING.read()
            if not self._raw.is_closing():
                self._raw.write(data)

    def can_write_eof(self) -> bool:
        """TLS says it, and then TCP does."""
        return self._raw.can_write_eof()

    def write_eof(self) -> None:
        """Say that nothing more will come; what still comes from the client is dropped undecrypted."""
        self._notify()
        if self._raw.can_write_eof():
            self._raw.write_eof()

    def _notify(self) -> None:
        tls = self._tls
        if tls is None or self._dropping:
            return
        self._dropping = True
        self._kept = b""
        try:
            tls.unwrap()
        except (ssl.SSLError, OSError, ValueError):
            pass  # it wants the client's word, too, which nobody waits for
        finally:
            _INCOMING.read()
            self._send()

    def close(self) -> None:
        """Close once all that was written is taken."""
        if not self._raw.is_closing():
            self._notify()
            self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        self._raw.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._raw.is_closing()

    def pause_reading(self) -> None:
        """Read no more for now."""
        self._paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read again; what was kept comes first, in the loop's next turn."""
        self._paused = False
        self._raw.resume_reading()
        if self._kept or (self._tls is not None and self._tls.pending()):
            self._handshakes.loop.call_soon(self._go_on)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection reads into another buffer from now on: read as much at once as fits there."""
        self.get_buffer = (  # type: ignore[method-assign]  # as above
            _large if cast(ClientConnection, protocol).get_buffer is large_buffer else _small
        )
        self._raw.set_protocol(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the connection is told that the socket takes no more."""
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Bytes written that the kernel has not taken."""
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the socket's transport tells."""
        return self._raw.get_extra_info(name, default)
