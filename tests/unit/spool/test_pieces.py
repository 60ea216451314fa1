import sys

from proxy.spool.pieces import Pieces


def test_something_is_taken_whenever_there_is_something():
    pieces = Pieces()
    pieces.append(b"x" * 100_000)
    assert len(pieces.take(1)) == 1
    assert len(pieces.take(64_000)) == 64_000


def test_a_large_piece_passes_without_a_copy():
    pieces, data = Pieces(), bytes(100_000)
    pieces.append(data)
    assert pieces.take(100_000) is data


def test_a_body_sent_byte_by_byte_costs_little_more_than_its_bytes():
    pieces = Pieces()
    for _ in range(65_536):
        pieces.append(b"x")
    cost = sum(map(sys.getsizeof, pieces._pieces)) + sys.getsizeof(pieces._pieces)
    assert cost < 65_536 * 1.2
