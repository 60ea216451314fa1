from hypothesis import given
from hypothesis import strategies as st

from proxy.mechanisms.tls_records import RecordReader

RECORDS = st.lists(st.tuples(st.integers(20, 24), st.integers(0, 300)), max_size=8)


def written(records):
    return b"".join(bytes((kind, 3, 3)) + length.to_bytes(2) + bytes(length) for kind, length in records)


@given(RECORDS, st.lists(st.integers(0, 2000), max_size=10))
def test_any_cut_of_the_bytes_gives_the_same_records(records, cuts):
    data = written(records)
    ends = sorted({*(cut for cut in cuts if cut < len(data)), len(data)})
    reader = RecordReader()
    found = []
    start = 0
    for end in ends:
        found += reader.feed(data[start:end])
        start = end

    assert found == records
    assert not reader.opaque


def test_what_is_no_tls_is_opaque_for_good():
    for data in (
        b"POST / HTTP/1.1",
        b"\x16\x02\x00\x00\x01",
        b"\x19\x03\x03\x00\x01",
        b"\x17\x03\x03\xff\xff",
    ):
        reader = RecordReader()
        assert reader.feed(data) == []
        assert reader.opaque
        assert reader.feed(written([(23, 5)])) == []


def test_an_empty_record_is_one():
    assert RecordReader().feed(written([(23, 0), (21, 2)])) == [(23, 0), (21, 2)]
