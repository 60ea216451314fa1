import random

from hypothesis import given
from hypothesis import strategies as st

from proxy.spool.pieces import Pieces

BYTES = random.Random(2).randbytes(400_000)
SIZES = st.sampled_from([0, 1, 100, 4_095, 4_096, 20_000, 70_000])


@given(st.lists(st.tuples(st.sampled_from(["append", "take", "put_back"]), SIZES), max_size=30))
def test_bytes_come_out_as_they_went_in_whatever_is_taken_and_put_back(events):
    pieces, sent, got = Pieces(), 0, 0
    for what, size in events:
        if what == "append":
            pieces.append(BYTES[sent : sent + size])
            sent = min(sent + size, len(BYTES))
        elif what == "take":
            data = pieces.take(size)
            assert type(data) is bytes
            assert len(data) <= size
            assert data == BYTES[got : got + len(data)]
            got += len(data)
        else:
            taken = pieces.take_pieces(size)
            assert b"".join(taken) == BYTES[got : got + sum(map(len, taken))]
            pieces.put_back(taken)
        assert pieces.size == sent - got
    assert b"".join(pieces.take_pieces(1_000_000)) == BYTES[got:sent]
