"""Bytes in the order they came, as the pieces they came in; pure.

A large piece passes through without a copy. Small ones are put together, or a body sent byte by byte would cost 40 times its
size: whatever the pieces are, the overhead is below a twentieth, and a mebibyte is at most 512 pieces. So a list is enough
for a queue: an empty deque costs 760 bytes, a list 56.
"""

from typing import Final

_SMALL_BYTES: Final = 4_096  # a piece below this is copied behind the small ones before it
_MERGED_BYTES: Final = 16_384  # and no more is copied to one place than this

Piece = bytes | bytearray | memoryview


class Pieces:
    """A first-in first-out queue of bytes; `size` is how many."""

    __slots__ = ("_offset", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self._offset = 0  # how much of the first piece is gone
        self.size = 0

    def append(self, data: bytes) -> None:
        """Put bytes behind the others."""
        self.size += len(data)
        if len(data) >= _SMALL_BYTES:
            self._pieces.append(data)
            return
        last = self._pieces[-1] if self._pieces else None
        if type(last) is bytearray and len(last) < _MERGED_BYTES:
            last += data
        elif data:
            self._pieces.append(bytearray(data))

    def take(self, max_bytes: int) -> bytes:
        """Take up to `max_bytes` from the front, of several pieces if they fit; empty if there is nothing."""
        taken = self.take_pieces(max_bytes)
        return bytes(taken[0]) if len(taken) == 1 else b"".join(taken)

    def take_pieces(self, max_bytes: int) -> list[Piece]:
        """Take up to `max_bytes` from the front as pieces; only the first is ever cut."""
        pieces = self._pieces
        offset = self._offset
        if self.size <= max_bytes:
            everything: list[Piece] = [*pieces]
            if offset:
                everything[0] = memoryview(pieces[0])[offset:]
            pieces.clear()
            self._offset = self.size = 0
            return everything
        first = pieces[0]
        size = len(first) - offset
        if size > max_bytes:
            self._offset = offset + max_bytes
            self.size -= max_bytes
            return [bytes(memoryview(first)[offset : self._offset])]
        count = 1
        while size + len(pieces[count]) <= max_bytes:  # ends, since not all of them fit
            size += len(pieces[count])
            count += 1
        taken: list[Piece] = [*pieces[:count]]
        if offset:
            taken[0] = memoryview(first)[offset:]
            self._offset = 0
        del pieces[:count]
        self.size -= size
        return taken

    def put_back(self, taken: list[Piece]) -> None:
        """Put what `take_pieces` gave in front again."""
        if self._offset:
            self._pieces[0] = bytes(memoryview(self._pieces[0])[self._offset :])
            self._offset = 0
        self._pieces[:0] = [bytes(piece) for piece in taken]
        self.size += sum(map(len, taken))
