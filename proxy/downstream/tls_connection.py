"""A client's connection whose transport is a `TlsLayer`."""

from typing import TYPE_CHECKING, ClassVar, cast

from proxy.downstream.connection import ClientConnection

if TYPE_CHECKING:
    from proxy.downstream.tls import TlsLayer


class TlsClientConnection(ClientConnection):
    """What TLS changes for a connection."""

    __slots__ = ()

    scheme: ClassVar[bytes] = b"https"

    def hung_up(self, *, gone: bool, unread_bytes: int) -> None:
        """What TLS has read and not given yet is unread, too."""
        layer = cast("TlsLayer", self.transport)
        super().hung_up(gone=gone, unread_bytes=unread_bytes + layer.unread_bytes)

    def _send_at_once(self, data: bytes) -> int:
        """What is encrypted has to go, so all of it is the transport's as soon as that has nothing else."""
        if self.transport.get_write_buffer_size():
            return 0
        self.transport.write(data)
        return len(data)
