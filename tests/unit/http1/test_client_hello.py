import contextlib
import ssl

import pytest

from proxy.http1.client_hello import MAX_BYTES, BadClientHelloError, is_whole


def openssls_hello():
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="example.org").do_handshake()
    return outgoing.read()


HELLO = openssls_hello()


def record(data, kind=0x16):
    return bytes((kind, 3, 1)) + len(data).to_bytes(2, "big") + data


def message(size, kind=1):
    return bytes((kind,)) + size.to_bytes(3, "big") + b"h" * size


def test_openssls_own_is_whole_at_its_last_byte_and_not_before():
    assert [at for at in range(len(HELLO) + 1) if is_whole(HELLO[:at])] == [len(HELLO)]


def test_it_may_come_in_several_records():
    body = HELLO[5:]
    pieces = [body[at : at + 70] for at in range(0, len(body), 70)]
    data = b"".join(map(record, pieces))
    assert is_whole(data)
    assert not any(is_whole(data[:at]) for at in range(len(data)))


def test_what_comes_behind_it_changes_nothing():
    assert is_whole(HELLO + b"anything")


@pytest.mark.parametrize(
    "data",
    [
        b"G",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x02",
        b"\x80\x2e\x01\x03\x01",  # as SSLv2 began
        record(b"", kind=0x16),
        record(message(10), kind=0x17),
        record(message(10, kind=2)),
        record(b"\x01") + b"G",
        record(message(MAX_BYTES)),
    ],
)
def test_what_can_become_none_is_refused_at_once(data):
    with pytest.raises(BadClientHelloError):
        is_whole(data)


def test_no_more_than_its_bound_is_waited_for():
    data = b"\x16\x03\x01\xff\xff\x01\x00\x3f\xfc" + b"h" * MAX_BYTES
    assert not is_whole(data[:MAX_BYTES])
    with pytest.raises(BadClientHelloError):
        is_whole(data[: MAX_BYTES + 1])


def test_it_may_not_come_in_ever_more_records():
    pieces = [record(HELLO[at : at + 1]) for at in range(5, 22)]
    assert not is_whole(b"".join(pieces[:16]))
    with pytest.raises(BadClientHelloError):
        is_whole(b"".join(pieces))
