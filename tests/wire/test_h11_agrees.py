"""h11 as a second judge: what goes on to the homeserver means to it what the client's bytes mean."""

from dataclasses import dataclass

import h11
import pytest
import requests_passed
from harness import OK, WHOLE, Answer, Cut
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.errors import Refused
from proxy.http1.fields import CODES, FIRST_DROPPED
from proxy.http1.request_head import CHUNKED, parse_request_head

#: Fields that a hop takes out or writes itself, and so may differ.
OURS = {b"expect", b"x-request-id"} | {name for name, code in CODES.items() if code >= FIRST_DROPPED}
QUIET = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass
class Meaning:
    method: bytes
    target: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes
    framing: str


def requests_in(data):
    """Read requests one after another, as a server would; raises what h11 raises."""
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=1_000_000)
    server.receive_data(data)
    found = []
    while isinstance(request := server.next_event(), h11.Request):
        body = b""
        while isinstance(event := server.next_event(), h11.Data):
            body += event.data
        if not isinstance(event, h11.EndOfMessage):
            break
        names = {name for name, _ in request.headers}
        framing = (
            "chunked" if b"transfer-encoding" in names else "length" if b"content-length" in names else "none"
        )
        fields = [(bytes(name), bytes(value)) for name, value in request.headers if name not in OURS]
        found.append(Meaning(bytes(request.method), bytes(request.target), fields, body, framing))
        if server.their_state is not h11.DONE:
            break
        server.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
        server.send(h11.EndOfMessage())
        if server.our_state is not h11.DONE:
            break
        server.start_next_cycle()
    return found


def in_origin_form(meaning):
    target = meaning.target
    if target.lower().startswith(b"http://"):
        path_and_query = target[7:].lstrip(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:")
        empty = b"*" if meaning.method == b"OPTIONS" else b"/"
        target = (
            path_and_query
            if path_and_query[:1] == b"/"
            else b"/" + path_and_query
            if path_and_query
            else empty
        )
    return target


def nominated(data):
    head = data.partition(b"\r\n\r\n")[0].lower()
    values = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.startswith(b"connection:")]
    return {option.strip() for value in values for option in value.split(b",")} - {b"authorization", b"host"}


def agree(sent, got):
    """Hold what was sent against what arrived."""
    before, after = requests_in(sent), requests_in(got)
    assert len(before) == len(after) == 1
    sent_one, got_one = before[0], after[0]
    gone = {
        name for name in nominated(sent) if not name.startswith(b"content-") and name != b"transfer-encoding"
    }
    assert got_one.method == sent_one.method
    assert got_one.target == in_origin_form(sent_one)
    assert got_one.body == sent_one.body
    assert got_one.framing == sent_one.framing
    kept = [field for field in sent_one.fields if field[0] not in gone]
    assert [field for field in got_one.fields if field in kept or field[0] != b"host"] == kept


#: h11 reads trailers as strictly as fields; Fairgate checks their form and drops them.
NOT_FOR_H11 = {"trailers that frame go"}
ALONE = [
    dialogue
    for dialogue in requests_passed.DIALOGUES
    if len(dialogue.sent) == 1
    and len(dialogue.got or ()) == 1
    and not dialogue.refusal
    and dialogue.name not in NOT_FOR_H11
]


@pytest.mark.parametrize("dialogue", [pytest.param(d, id=d.name) for d in ALONE])
def test_every_request_that_passes_means_the_same_behind_fairgate(world, loop, dialogue):
    (request,) = loop.run_until_complete(world.play(dialogue, WHOLE))
    sent = dialogue.sent[0].removeprefix(b"\r\n")
    if b" HTTP/1.0\r\n" not in sent and b"Connection: close\r\n\r\nGET" not in sent:
        agree(sent, request.data)


TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
LETTERS = st.sampled_from(list(TOKEN[:52]))
NAMES = st.lists(st.sampled_from(list(TOKEN)), min_size=1, max_size=12).map(bytes)
VALUES = st.one_of(
    st.sampled_from([b"", b"a", b"a: b", b"a, b", b'"q"', b"close", b"chunked", b"0"]),
    st.lists(st.sampled_from([9, *range(32, 127), *range(128, 256)]), max_size=20).map(
        lambda v: bytes(v).strip(b" \t")
    ),
)
TARGETS = st.lists(st.sampled_from(list(b"abz09/?%&=.:@!$'()*+,;~-_[]{}|\\^`\"<>")), max_size=30).map(
    lambda t: b"/" + bytes(t)
)
SPECIAL = {b"host", b"content-length", b"transfer-encoding", b"content_length", b"transfer_encoding"}


@st.composite
def requests(draw):
    """Any good request of HTTP/1.1."""
    method = draw(
        st.one_of(
            st.sampled_from([b"GET", b"POST", b"PUT"]), st.lists(LETTERS, min_size=1, max_size=32).map(bytes)
        )
    )
    fields = [
        (n, v) for n, v in draw(st.lists(st.tuples(NAMES, VALUES), max_size=6)) if n.lower() not in SPECIAL
    ]
    chunks = draw(st.lists(st.binary(min_size=1, max_size=30), max_size=4))
    framing = draw(st.sampled_from(["none", "length", "chunked"]))
    body = b""
    if framing == "length":
        body = b"".join(chunks)
        fields.append((b"Content-Length", b"%d" % len(body)))
    elif framing == "chunked":
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        fields.append((b"Transfer-Encoding", b"chunked"))
    fields.insert(draw(st.integers(0, len(fields))), (b"Host", b"a"))
    head = b"%s %s HTTP/1.1\r\n" % (method, draw(TARGETS)) + b"".join(
        b"%s: %s\r\n" % field for field in fields
    )
    return head + b"\r\n" + body


def is_ordinary(sent):
    """Whether nothing in it is refused by rule: see `requests_refused`."""
    method = sent.partition(b" ")[0]
    return method not in (b"CONNECT", b"TRACE", b"HEAD") and nominated(sent) <= {b"", b"keep-alive"}


@QUIET
@given(requests().filter(is_ordinary), st.integers(0, 1000))
def test_any_good_request_means_the_same_behind_fairgate_in_any_cut(world, loop, sent, seed):
    async def send():
        script = world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(sent, Cut("at random", seed))
        await line.until_received(OK)
        assert bytes(line.received) == OK
        line.transport.abort()
        await world.calm()
        return script.requests

    (request,) = loop.run_until_complete(send())
    assert request.whole
    agree(sent, request.data)


BASES = [
    b"GET /x?y HTTP/1.1\r\nHost: a\r\nX-A: b\r\nConnection: keep-alive\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
    b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\r\n",
    b"POST http://a/x HTTP/1.1\r\nhost: a\r\nContent-Length: 5\r\nX: y\r\n\r\n",
    b"PUT /x HTTP/1.0\r\nContent-Length: 5\r\nConnection: close, x\r\nX: y\r\n\r\n",
]
PARTS = [bytes([byte]) for byte in b"\r\n\t \x00\x0b\x0c\x7f\x80\xff:;,+-_/*?#@%09aAxX\"'"] + [
    b"\r\n", b"\r\n ", b" :", b"chunked", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Content_Length: 5\r\n",
    b"Host: a\r\n", b"Connection: content-length\r\n", b"Connection: transfer-encoding, x\r\n", b"Upgrade: websocket\r\n",
]  # fmt: skip
EDITS = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 3), st.sampled_from(PARTS)), min_size=1, max_size=4
)


def edited(head, edits):
    for at, taken, put in edits:
        at %= len(head)  # noqa: PLW2901
        head = head[:at] + put + head[at + taken :]
    head += b"\r\n\r\n"
    return head[: head.find(b"\r\n\r\n") + 4]


class NoClient:
    """Nobody: the head is only put together, not sent."""

    scheme = b"http"


def forwarded(world, head):
    """What Fairgate makes of a head, or None where it refuses; and how long it takes the body to be."""
    try:
        parsed = parse_request_head(head, max_fields=100, max_target_bytes=16_384)
    except Refused:
        return None
    pipeline = world.application.pipeline
    exchange = pipeline.begin(NoClient(), parsed, pipeline.client_keys.resolve("192.0.2.1"), 0.0)
    return exchange.wire_head, exchange.body.left if exchange.body else 0


@settings(QUIET, max_examples=800)
@given(st.sampled_from(BASES), EDITS)
@example(BASES[1], [(26, 0, b"Content_Length: 5\r\n")])
@example(BASES[2], [(18, 0, b"Connection: transfer-encoding, x\r\n")])
def test_a_damaged_head_is_refused_or_means_to_h11_what_it_means_to_us(world, base, edits):
    head = edited(base, edits)
    outcome = forwarded(world, head)
    if outcome is None:
        return
    wire, length = outcome
    server = h11.Connection(h11.SERVER)
    server.receive_data(wire)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    fields = dict(request.headers)
    if length == CHUNKED:
        assert fields[b"transfer-encoding"].lower() == b"chunked"
        assert b"content-length" not in fields
    else:
        assert int(fields.get(b"content-length", 0)) == length
        assert b"transfer-encoding" not in fields
    assert wire.count(b"\r\n\r\n") == 1
