"""What both other readers must agree on of one message, given as bytes: for the tests of this folder, and for atheris."""

from second_readers import Unread, h11_answers, h11_requests, llhttp_answers, llhttp_request
from test_h11_agrees import forwarded

from proxy.http1.chunked import BadChunkError, ChunkedBody
from proxy.http1.fields import CHUNKED
from proxy.http1.response_head import UNTIL_CLOSE, ResponseBrokenError, parse_response_head


def whole_head(data):
    """Cut at the end of the head; None if there is no end."""
    end = data.find(b"\r\n\r\n")
    return data[: end + 4] if end > 0 else None


def agree_on_request_head(world, head):
    """If it goes on, it says the same to everybody."""
    outcome = forwarded(world, head)
    if outcome is None:
        return
    wire, length = outcome
    if length > 1000:
        return  # well, but long
    body = b"0\r\n\r\n" if length == CHUNKED else b"b" * length
    if b"\r\nConnection: Upgrade\r\n" in wire:
        body = b""
    (by_h11,), (by_llhttp,) = h11_requests(wire + body), llhttp_request(wire + body)
    assert by_h11 == by_llhttp, head
    assert by_h11.whole, head
    assert by_h11.body == (b"" if length == CHUNKED else body), head


def agree_on_answer_head(head):
    """If it passes, it says the same to everybody."""
    try:
        parsed = parse_response_head(head, method=b"GET")
    except ResponseBrokenError:
        return
    if parsed.status < 200 or parsed.length > 1000:
        return
    wire = parsed.wire + b"\r\n\r\n"
    if parsed.length == CHUNKED:
        body, payload = b"1\r\na\r\n0\r\n\r\n", b"a"
    else:
        body = payload = b"b" * (7 if parsed.length == UNTIL_CLOSE else parsed.length)
    ended = parsed.length == UNTIL_CLOSE
    (by_h11,), (by_llhttp,) = (
        h11_answers(wire + body, [b"GET"], ended=ended),
        llhttp_answers(wire + body, ended=ended),
    )
    assert by_h11 == by_llhttp, head
    assert by_h11.whole, head
    assert by_h11.body == payload, head
    assert by_h11.start == (parsed.status,), head


def agree_on_chunks(data, next_size):
    """If they go on, they are the same bytes to everybody, in whatever pieces they come; `next_size()` gives a piece's."""
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    body, payload = ChunkedBody(), ChunkedBody(decode=True)
    out = meant = b""
    beyond, at = 0, 0
    try:
        while at < len(data) and not body.done:
            piece = data[at : at + next_size()]
            forwarded_piece, beyond = body.feed(piece)
            out += forwarded_piece
            meant += payload.feed(piece)[0]
            at += len(piece)
    except BadChunkError:
        return
    if not body.done:
        return
    (by_h11,), (by_llhttp,) = h11_requests(head + out), llhttp_request(head + out)
    assert by_h11 == by_llhttp, data
    assert by_h11.whole, data
    assert by_h11.body == meant, data
    try:
        original = h11_requests(head + data[: at - beyond])
    except Unread:  # h11 is stricter about trailers, which do not go on
        return
    assert original[0].body == meant, data
