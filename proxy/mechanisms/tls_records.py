"""TLS seen from outside: kind and length of each record in one direction (RFC 8446 §5.1, RFC 5246 §6.2). Pure.

Nothing is decrypted. Bound: four bytes are kept between calls. Once something came that is not TLS, the reader stays `opaque`.
"""

from typing import Final

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = range(20, 25)
_HEADER_BYTES: Final = 5
_MAJOR_VERSION: Final = 3
_MAX_RECORD_BYTES: Final = 16_384 + 2048  # the larger allowance, that of TLS 1.2

Record = tuple[int, int]


class RecordReader:
    """One direction of one connection."""

    __slots__ = ("_header", "_left", "opaque")

    def __init__(self) -> None:
        self.opaque = False
        self._header = b""
        self._left = 0

    def feed(self, data: bytes) -> list[Record]:
        """Take the next bytes; give (type, length) of each record whose header is now complete."""
        found: list[Record] = []
        position, end = 0, len(data)
        while position < end and not self.opaque:
            if self._left:
                taken = min(self._left, end - position)
                self._left -= taken
                position += taken
                continue
            wanted = _HEADER_BYTES - len(self._header)
            header = self._header + data[position : position + wanted]
            position += wanted
            if len(header) < _HEADER_BYTES:
                self._header = header
                break
            self._header = b""
            self._left = int.from_bytes(header[3:])
            self.opaque = not (
                CHANGE_CIPHER_SPEC <= header[0] <= HEARTBEAT
                and header[1] == _MAJOR_VERSION
                and self._left <= _MAX_RECORD_BYTES
            )
            if not self.opaque:
                found.append((header[0], self._left))
        return found
