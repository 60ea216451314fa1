"""Heads and chunked bodies by the thousand, without sockets: what our readers take, h11 and llhttp take for the same.

Each example is a seed, from which a batch of messages is damaged; a failure names the message, which is then a case of its own.
"""

import random

import pytest
from fuzz_bytes import PIECES, damaged
from hypothesis import given, settings
from hypothesis import strategies as st
from second_readers import Unread, h11_answers, h11_requests, llhttp_answers, llhttp_request
from test_h11_agrees import forwarded

from proxy.http1.chunked import BadChunkError, ChunkedBody
from proxy.http1.request_head import CHUNKED
from proxy.http1.response_head import CHUNKED as CHUNKED_ANSWER
from proxy.http1.response_head import UNTIL_CLOSE, ResponseBrokenError, parse_response_head

FUZZ = settings.get_profile("fuzz")
BATCH = 40
SEEDS = st.integers(0, 2**48)
HEADS = [
    b"GET /x?y HTTP/1.1\r\nHost: a\r\nX-A: b\r\nConnection: keep-alive, x-a\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-A: b\r\n\r\n",
    b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\r\n",
    b"PUT http://a/x HTTP/1.1\r\nhost: a\r\nContent-Length: 5\r\nX: y\r\n\r\n",
    b"PUT /x HTTP/1.0\r\nContent-Length: 5\r\nConnection: keep-alive\r\nX: y\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: [::1]:1\r\nX: \r\n\r\n",
]
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x-a\r\nX-A: b\r\n\r\n",
    b"HTTP/1.0 404 N\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 304 N\r\nETag: x\r\n\r\n",
    b"HTTP/1.1 200 \r\nX: y\r\n\r\n",
]
BODIES = [
    b"5\r\nhello\r\n0\r\n\r\n",
    b"A;a=b\r\n0123456789\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
    b"1\r\n0\r\n5\r\n0\r\n\r\n\r\n000\r\n\r\n",
]
HURTS = [*(bytes([byte]) for byte in range(256)), *PIECES]


def batch(seed, bases):
    """Give a batch of damaged messages."""
    chance = random.Random(seed)
    for _ in range(BATCH):
        edits = [
            (chance.random(), chance.choice((0, 0, 1, 1, 2, 4)), chance.choice((b"", *HURTS)))
            for _ in range(chance.randint(1, 4))
        ]
        yield damaged(chance.choice(bases), edits)


def whole_heads(seed, bases):
    for data in batch(seed, bases):
        end = data.find(b"\r\n\r\n")
        if end > 0:
            yield data[: end + 4]


@pytest.mark.slow
@settings(FUZZ)
@given(SEEDS)
def test_a_request_head_that_goes_on_says_the_same_to_everybody(world, seed):
    for head in whole_heads(seed, HEADS):
        outcome = forwarded(world, head)
        if outcome is None:
            continue
        wire, length = outcome
        body = b"0\r\n\r\n" if length == CHUNKED else b"b" * min(length, 1000)
        if length > 1000:
            continue  # well, but long
        if b"\r\nConnection: Upgrade\r\n" in wire:
            body = b""
        (by_h11,), (by_llhttp,) = h11_requests(wire + body), llhttp_request(wire + body)
        assert by_h11 == by_llhttp, head
        assert by_h11.whole, head
        assert by_h11.body == (b"" if length == CHUNKED else body), head


@pytest.mark.slow
@settings(FUZZ)
@given(SEEDS)
def test_an_answers_head_that_passes_says_the_same_to_everybody(seed):
    for head in whole_heads(seed, ANSWERS):
        try:
            parsed = parse_response_head(head, method=b"GET")
        except ResponseBrokenError:
            continue
        if parsed.status < 200 or parsed.length > 1000:
            continue
        wire = parsed.wire + b"\r\n\r\n"
        if parsed.length == CHUNKED_ANSWER:
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


@pytest.mark.slow
@settings(FUZZ)
@given(SEEDS)
def test_chunks_that_go_on_are_the_same_bytes_to_everybody(seed):
    head = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    chance = random.Random(seed)
    for data in batch(seed, BODIES):
        body, payload = ChunkedBody(), ChunkedBody(decode=True)
        out = meant = b""
        beyond, at = 0, 0
        try:
            while at < len(data) and not body.done:
                piece = data[at : at + chance.randint(1, len(data))]
                forwarded_piece, beyond = body.feed(piece)
                out += forwarded_piece
                meant += payload.feed(piece)[0]
                at += len(piece)
        except BadChunkError:
            continue
        if not body.done:
            continue
        (by_h11,), (by_llhttp,) = h11_requests(head + out), llhttp_request(head + out)
        assert by_h11 == by_llhttp, data
        assert by_h11.whole, data
        assert by_h11.body == meant, data
        try:
            original = h11_requests(head + data[: at - beyond])
        except Unread:  # h11 is stricter about trailers, which do not go on
            continue
        assert original[0].body == meant, data
