import queue

import pytest
from e2e_support import RawUpstream, read_response, running_fairgate

ADDED = (b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id")


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    heads = queue.Queue()

    def record(connection):
        while head := connection.read_head():
            heads.put(head)
            connection.answer()

    folder = tmp_path_factory.mktemp("recording")
    with RawUpstream(record) as upstream, running_fairgate(folder, upstream.url) as fairgate:
        yield fairgate, heads


def sent_and_seen(recorder, head):
    fairgate, heads = recorder
    with fairgate.connect() as client:
        client.sendall(head)
        assert read_response(client)[0].startswith(b"HTTP/1.1 200")
    return heads.get(timeout=5)


def fields(head):
    lines = head.split(b"\r\n")[1:-2]
    return [line for line in lines if line.split(b":")[0].lower() not in ADDED]


@pytest.mark.parametrize(
    "target",
    [
        b"/_matrix/client/v3/rooms/%21a%2Fb%3Ac/state",
        b"/_matrix/client/v3/directory/room/%23room%3alocalhost",
        b"//_matrix//client/v3/account/whoami",
        b"/_matrix/client/v3/account/whoami?",
        b"/_matrix/./client/../client/v3/account/whoami",
        b"/_matrix/client/v3/profile/%40%c3%A9%C3%a9",
        b"/_matrix/client/v3/sync?a=b&&a=c&d=%20+%2B&=&e",
        b"/_matrix/client/v3/rooms/!a:b/send/m.room.message/m;x=1,2$@'()*",
        b"/%7euser/~user/?q=/../?",
        b"/",
    ],
)
def test_a_target_arrives_as_it_was_sent(recorder, target):
    seen = sent_and_seen(recorder, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert seen.split(b"\r\n")[0] == b"GET " + target + b" HTTP/1.1"


def test_fields_arrive_with_their_case_order_duplicates_and_spaces_inside(recorder):
    sent = [
        b"hOsT: matrix.example:8448",
        b"X-One: 1",
        b"x-two: a",
        b'AUTHORIZATION: X-Matrix origin="a.example",key="ed25519:1",sig="a+/="',
        b"X-TWO: b",
        b"accept: text/html;q=0.5,  */*",
        b"x-two: a",
        b"Cookie: a=1; b=2",
        b"X-Empty:",
        b"X-Latin: caf\xe9",
        b'If-Match: W/"x"',
    ]
    seen = sent_and_seen(recorder, b"\r\n".join([b"GET /path HTTP/1.1", *sent, b"", b""]))
    assert fields(seen) == sent


@pytest.mark.parametrize("path", [b"/_matrix/client/v3/sync", b"/_matrix/client/r0/events"])
def test_a_timeout_above_the_ceiling_is_lowered_and_no_other_byte_changes(recorder, path):
    target = path + b"?filter=%7B%22a%22%3A1%7D&timeout={}&from=s1_2%5F3&set_presence=offline&x=&x"
    sent = [b"Host: localhost", b"X-Odd:  a  b", b"user-agent: Test/1", b"Accept: */*"]
    line = b"GET " + target.replace(b"{}", b"300000") + b" HTTP/1.1"
    seen = sent_and_seen(recorder, b"\r\n".join([line, *sent, b"", b""]))
    assert seen.split(b"\r\n")[0] == line.replace(b"300000", b"120000")
    assert fields(seen) == sent
