"""Bodies on the wire: read before a worker is taken, kept on disk or streamed where they cannot be, given up for a reason."""

import errno
import hashlib
import random

import pytest
from clients import (
    THINKS,
    answer_lookup,
    answer_request,
    ask,
    connect,
    field,
    get,
    hints_of,
    lookups_arrived,
    post,
    requests_arrived,
    some_turns,
    whoami_of,
    with_body,
)
from harness import BYTES, CUTS, OK, Answer, refusal_in, until

from proxy import clock

A, B = "127.0.0.11", "127.0.0.12"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ROOMS = b"/_matrix/client/v3/createRoom"
UPLOAD = b"/_matrix/media/v3/upload"
SET = b"/_matrix/client/v3/pushers/set"
TOKEN = b"Authorization: Bearer t\r\n"
LARGE = 1_200_000


def head_of(size, *, target=b"/x", fields=b""):
    return post(0, target=target, fields=fields).replace(b"Content-Length: 0", b"Content-Length: %d" % size)


def chunked(payload, size, *, target=b"/x", fields=b""):
    """A head and chunks of `size` bytes."""
    head = b"POST %b HTTP/1.1\r\nHost: a\r\n%bTransfer-Encoding: chunked\r\n\r\n" % (target, fields)
    chunks = [payload[at : at + size] for at in range(0, len(payload), size)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def noise(size):
    return random.Random(size).randbytes(size)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def body_of(request):
    return request.data.partition(b"\r\n\r\n")[2]


def requests_stores(world):
    return world.application.pipeline.bodies.requests


async def reading(world, request, address="127.0.0.1", *, bytes_=None):
    """Send a part of a request; give both sides once its body is being read, so far as was sent."""
    line, connection = await connect(world, address)
    await line.send(request)
    await until(lambda: connection.exchange is not None and connection.exchange.body.floor is not None)
    if bytes_ is not None:
        await until(lambda: connection.exchange.body.read_bytes == bytes_)
    return line, connection


# Kept until a worker is there.


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_a_long_body_goes_to_disk_and_on_as_it_came_and_leaves_no_file(in_a_world, cut):
    payload = noise(LARGE)

    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        line, _ = await connect(world)
        await line.send(head_of(LARGE) + payload, cut)
        await line.until_received(OK)
        assert digest(body_of(script.requests[0])) == digest(payload)
        assert requests_stores(world).spooled_total == 1
        await world.until_nothing_is_left()

    in_a_world(tell, bodies={"confirm_above_bytes": 2 * LARGE})


@pytest.mark.parametrize("size", [1000, 65_536, 300_000])
def test_chunks_that_went_to_disk_are_the_same_chunks(in_a_world, size):
    request = chunked(noise(LARGE), size)

    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        line = await ask(world, request)
        await line.until_received(OK)
        assert digest(body_of(script.requests[0])) == digest(request.partition(b"\r\n\r\n")[2])
        assert requests_stores(world).spooled_total == 1
        await world.until_nothing_is_left()

    in_a_world(tell, bodies={"confirm_above_bytes": 2 * LARGE})


def test_a_short_body_in_pieces_never_goes_to_disk(in_a_world):
    payload = noise(60_000)

    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        line, _ = await connect(world)
        await line.send(head_of(60_000) + payload, BYTES)
        await line.until_received(OK)
        assert body_of(script.requests[0]) == payload
        assert requests_stores(world).spooled_total == 0
        assert world.application._spool.statistics().written_bytes_total == 0

    in_a_world(tell)


def registration(size):
    return b'{"app_id":"a","pushkey":"p","kind":"http","data":{},"pad":"%b"}' % (b"x" * size)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
@pytest.mark.parametrize(
    ("request_", "bodies"),
    [
        (
            chunked(registration(20_000), 1, target=SET),
            {},
        ),  # decoded 20 kB, 120 on the wire: more than the memory of one body
        (chunked(registration(60_000), 7000, target=SET), {"memory_bytes": 4096}),
        (
            head_of(len(registration(30_000)), target=SET) + registration(30_000),
            {"memory_bytes": 4096, "spool_bytes": 0},
        ),
        (head_of(len(registration(30_000)), target=SET) + registration(30_000), {"memory_bytes": 4096}),
    ],
    ids=["small chunks", "chunks", "nowhere to keep it", "on disk"],
)
def test_a_body_that_is_looked_into_goes_on_whole(in_a_world, cut, request_, bodies):
    async def tell(world):
        script = world.homeserver.begin((Answer(OK), Answer(OK)))
        line, _ = await connect(world)
        await line.send(request_, cut)
        await line.until_received(OK)
        assert body_of(script.requests[0]) == request_.partition(b"\r\n\r\n")[2]
        await line.send(get())
        await line.until_received(OK + OK)
        await world.until_nothing_is_left()

    in_a_world(tell, bodies=bodies)


def test_bodies_that_wait_for_a_worker_wait_on_disk(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((THINKS,) + (Answer(OK),) * 3)
        await ask(world, get(), A)
        await requests_arrived(world, 1)
        lines = [await ask(world, post(800_000), A) for _ in range(3)]
        await until(lambda: world.workers() == (1, 0, 3))
        await until(lambda: world.application._spool.statistics().open_files == 3)
        memory = requests_stores(world).memory
        await until(lambda: memory.statistics().taken_bytes <= 3 * (65_536 + 262_144))
        answer_request(world, 0, OK)
        for line in lines:
            await line.until_received(OK)
        assert [len(body_of(request)) for request in script.requests] == [0, 800_000, 800_000, 800_000]
        await world.until_nothing_is_left()

    in_a_world(tell, lanes={"requests": {"share": 0.01}})


@pytest.mark.parametrize("how", ["resets", "ends"])
@pytest.mark.parametrize("sent", [100_000, 900_000])
def test_a_body_whose_client_leaves_is_dropped_with_its_file(in_a_world, sent, how):
    async def tell(world):
        line, _ = await reading(world, head_of(1_000_000) + b"y" * sent, bytes_=sent)
        if how == "resets":
            line.reset()
        else:
            line.transport.write_eof()
        await world.until_nothing_is_left()
        assert world.homeserver.lines == []

    in_a_world(tell)


# Streamed, where it cannot be kept.


async def streaming(world, request=None):
    """Send a part of a body that nobody can keep; give the client's side once the homeserver has some of it."""
    line, connection = await connect(world)
    await line.send(request or head_of(LARGE) + noise(LARGE)[:400_000])
    await until(lambda: world.homeserver.lines and len(world.homeserver.lines[0].received) > 250_000)
    assert world.workers() == (1, 0, 0)
    return line, connection


STREAMED = {"bodies": {"spool_bytes": 0, "confirm_above_bytes": 2 * LARGE}}


def test_a_body_that_cannot_be_kept_is_streamed_and_holds_a_worker(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        line, _ = await streaming(world)
        assert script.requests == [], "it is not whole"
        await line.send(noise(LARGE)[400_000:])
        await line.until_received(OK)
        assert digest(body_of(script.requests[0])) == digest(noise(LARGE))
        assert requests_stores(world).spooled_total == 0
        await world.until_nothing_is_left()

    in_a_world(tell, **STREAMED)


def test_chunks_that_cannot_be_kept_are_streamed_as_they_came(in_a_world):
    request = chunked(noise(LARGE), 7000)

    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        line, _ = await streaming(world, request[:500_000])
        await line.send(request[500_000:])
        await line.until_received(OK)
        assert digest(body_of(script.requests[0])) == digest(request.partition(b"\r\n\r\n")[2])

    in_a_world(tell, **STREAMED)


def test_a_homeserver_that_ends_in_the_middle_of_a_request_is_told_at_once(in_a_world):
    size = 30_000_000  # more than the kernels hold

    async def tell(world):
        world.homeserver.begin(())
        line = await ask(world, head_of(size) + noise(size))
        await until(lambda: world.homeserver.lines and world.homeserver.lines[0].transport is not None)
        homeserver = world.homeserver.lines[0]
        homeserver.transport.pause_reading()
        connections = world.application.pool._connections
        await until(lambda: connections)
        (upstream,) = connections
        await until(lambda: upstream.transport.get_write_buffer_size() > 65_536)
        await some_turns()
        homeserver.transport.write_eof()
        await until(lambda: line.received)
        assert refusal_in(bytes(line.received)) == (502, "upstream_closed")
        await world.until_nothing_is_left()

    in_a_world(tell, bodies={"confirm_above_bytes": 2 * size, "max_json_bytes": 2 * size})


def test_a_disk_that_cannot_be_written_makes_bodies_streamed(in_a_world):
    def full():
        raise OSError(errno.ENOSPC, "the disk is full")

    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        world.application._spool.open_file = full
        line, _ = await connect(world)
        await line.send(head_of(LARGE) + noise(LARGE)[:400_000])
        await until(lambda: world.application._spool.statistics().failures_total == 1)
        await line.send(noise(LARGE)[400_000:800_000])
        await until(lambda: world.workers() == (1, 0, 0))
        await line.send(noise(LARGE)[800_000:])
        await line.until_received(OK)
        assert digest(body_of(script.requests[0])) == digest(noise(LARGE))
        await world.until_nothing_is_left()

    in_a_world(tell, bodies={"confirm_above_bytes": 2 * LARGE})


def test_an_answer_while_the_body_is_still_coming_ends_both_connections(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK, after="head"),))
        line, _ = await connect(world)
        await line.send(head_of(LARGE) + noise(LARGE)[:400_000])
        await line.until_received(b"ok")
        await line.send(b"y" * 100_000)
        answer = await line.until_ended()
        assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        await until(lambda: world.homeserver.lines[0].ended)
        await world.until_nothing_is_left()
        assert world.pool_places() == (0, 0, 0, 0)

    in_a_world(tell, **STREAMED)


@pytest.mark.parametrize("how", ["resets", "ends"])
def test_a_stream_whose_client_leaves_is_cut_and_its_worker_is_free(in_a_world, how):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line, _ = await streaming(world)
        if how == "resets":
            line.reset()
        else:
            line.transport.write_eof()
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)
        assert not any(request.whole for request in world.homeserver.script.requests)

    in_a_world(tell, **STREAMED)


def test_a_stream_whose_chunks_break_is_refused_and_the_homeserver_never_sees_its_end(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line, _ = await streaming(world, chunked(noise(LARGE), 7000)[:500_000])
        await line.send(b"z" * 8000)
        assert refusal_in(await line.until_ended()) == (400, "bad_chunk")
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)
        assert not any(request.whole for request in world.homeserver.script.requests)

    in_a_world(tell, **STREAMED)


def test_a_body_that_waits_unread_for_a_worker_is_not_too_slow(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((THINKS, Answer(OK)))
        await ask(world, get())
        await requests_arrived(world, 1)
        line, connection = await reading(world, head_of(LARGE) + noise(LARGE)[:900_000])
        await until(lambda: world.workers() == (1, 0, 1) and connection.paused)
        connection.deadline_passed(clock.now() + 1000)
        await some_turns()
        assert world.workers() == (1, 0, 1)
        answer_request(world, 0, OK)
        await line.send(noise(LARGE)[900_000:])
        await line.until_received(OK)
        assert digest(body_of(script.requests[1])) == digest(noise(LARGE))

    in_a_world(tell, **STREAMED, lanes={"requests": {"share": 0.01}})


# Streamed, by those for whom nobody vouches.

PLACES = 4  # a quarter of generic's 16 workers
FEDERATION = b"/_matrix/federation/v1/send/1"


async def streams(world, number, *, target=b"/x", fields=b""):
    """Have `number` clients, each from its own address, send a part of what nobody can keep; give both sides of each."""
    sides = []
    for host in range(number):
        line, connection = await connect(world, f"127.9.0.{host + 1}")
        await line.send(head_of(LARGE, target=target, fields=fields) + noise(LARGE)[:400_000])
        await until(lambda: connection.exchange is None or connection.exchange.body.streams)  # noqa: B023
        sides.append((line, connection))
    return sides


def test_bodies_without_an_account_hold_a_quarter_of_the_workers_and_are_refused_beyond(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 8).whoami = whoami_of({b"t": "@alice:a"})
        *served, (refused, _) = await streams(world, PLACES + 1)
        answer = await refused.until_ended()
        assert refusal_in(answer) == (503, "spool_full")
        assert hints_of(answer)
        assert field(answer, b"Connection") == "close"
        assert world.workers() == (PLACES, 0, 0)
        for line, _ in await streams(world, 2, target=ROOMS, fields=TOKEN):  # an account's are not among them
            await line.send(noise(LARGE)[400_000:])
            await line.until_received(OK)
        for line, _ in served:
            await line.send(noise(LARGE)[400_000:])
            await line.until_received(OK)
        await world.until_nothing_is_left()

    in_a_world(tell, **STREAMED)


def test_other_homeservers_lose_no_place_to_clients_without_a_token(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 8)
        await streams(world, PLACES)
        ((peer, _),) = await streams(world, 1, target=FEDERATION)
        assert world.workers("federation") == (1, 0, 0)
        await peer.send(noise(LARGE)[400_000:])
        await peer.until_received(OK)

    in_a_world(tell, **STREAMED)


@pytest.mark.parametrize("how", ["resets", "ends", "is too slow", "is whole"])
def test_a_place_is_free_again_when_its_body_has_ended(in_a_world, how):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 8)
        (first, connection), *_ = await streams(world, PLACES)
        if how == "resets":
            first.reset()
        elif how == "ends":
            first.transport.write_eof()
        elif how == "is too slow":
            connection.deadline_passed(clock.now() + 1000)
        else:
            await first.send(noise(LARGE)[400_000:])
        await until(lambda: world.application.pipeline.streams.bodies.streaming == PLACES - 1)
        line, _ = await connect(world, "127.9.1.1")
        await line.send(head_of(LARGE) + noise(LARGE))
        await line.until_received(OK)

    in_a_world(tell, **STREAMED)


def test_a_place_is_free_again_while_the_homeserver_works_on_what_came(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((THINKS,) * PLACES + (Answer(OK),))
        for line, _ in await streams(world, PLACES):
            await line.send(noise(LARGE)[400_000:])
        await until(lambda: len(script.requests) == PLACES)
        assert world.workers() == (PLACES, 0, 0)
        assert world.application.pipeline.streams.bodies.streaming == 0
        line, _ = await connect(world, "127.9.1.1")
        await line.send(head_of(LARGE) + noise(LARGE))
        await line.until_received(OK)

    in_a_world(tell, **STREAMED)


def test_a_place_is_kept_by_a_body_that_waits_in_line(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) + (Answer(OK),) * 8)
        await ask(world, get(), "127.9.0.1")
        await requests_arrived(world, 1)
        *_, (refused, _) = await streams(world, 2)
        assert refusal_in(await refused.until_ended()) == (503, "spool_full")
        assert world.workers() == (1, 0, 1)
        answer_request(world, 0, OK)
        await until(lambda: world.workers() == (1, 0, 0))

    in_a_world(tell, **STREAMED, lanes={"requests": {"workers": 4}, "address_share": 0.25})


def test_in_report_mode_such_bodies_go_on_and_are_reported(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 8)
        for line, _ in await streams(world, PLACES + 2):
            await line.send(noise(LARGE)[400_000:])
            await line.until_received(OK)
        reported = world.application.pipeline.recorder.reported_total
        assert {reason.value: number for reason, number in reported.items() if number} == {"spool_full": 2}
        await world.until_nothing_is_left()

    in_a_world(tell, **STREAMED, lanes={"mode": "report"})


# Too slow.


@pytest.mark.parametrize(
    ("fields", "good_s", "late_s"), [(b"", 9.9, 10.2), (TOKEN, 29.9, 30.2)], ids=["anybody", "an account"]
)
@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_that_comes_too_slowly_is_refused_and_its_connection_ends(
    in_a_world, framing, fields, good_s, late_s
):
    begun = chunked(b"y" * 30, 3, target=ROOMS, fields=fields)[:-20] if framing == "chunks" else None

    async def tell(world):
        world.homeserver.begin(()).whoami = whoami_of({b"t": "@alice:a"})
        began_at = clock.now()
        line, connection = await reading(world, begun or head_of(99, target=ROOMS, fields=fields) + b"yyy")
        connection.deadline_passed(began_at + good_s)
        await some_turns()
        assert bytes(line.received) == b""
        connection.deadline_passed(clock.now() + late_s)
        answer = await line.until_ended()
        assert refusal_in(answer) == (408, "body_timeout")
        assert field(answer, b"Connection") == "close"
        await world.until_nothing_is_left()
        assert all(not line.received for line in world.homeserver.lines)

    in_a_world(tell)


def test_an_accounts_body_that_takes_up_a_worker_has_to_come_as_fast_as_anybodys(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),)).whoami = whoami_of({b"t": "@alice:a"})
        line, connection = await streaming(
            world, head_of(LARGE, target=ROOMS, fields=TOKEN) + noise(LARGE)[:400_000]
        )
        connection.deadline_passed(clock.now() + 1)  # from here on it is known to stream
        connection.deadline_passed(clock.now() + 30)
        await some_turns()
        assert bytes(line.received) == b"", "400,000 bytes are enough for 34 s"
        connection.deadline_passed(clock.now() + 36)
        assert refusal_in(await line.until_ended()) == (408, "body_timeout")
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)

    in_a_world(tell, **STREAMED)


# Too large.


def test_a_length_that_is_too_large_is_refused_before_a_byte_is_read(in_a_world):
    async def tell(world):
        line, _ = await connect(world)
        await line.send(head_of(1001, fields=b"Expect: 100-continue\r\n"))
        answer = await line.until_ended()
        assert refusal_in(answer) == (413, "body_too_large")
        assert b'"M_TOO_LARGE"' in answer
        assert CONTINUE not in answer
        assert world.homeserver.lines == []

    in_a_world(tell, bodies={"max_json_bytes": 1000})


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_chunks_that_grow_too_large_are_refused(in_a_world, cut):
    async def tell(world):
        line, _ = await connect(world)
        await line.send(chunked(noise(1001), 100), cut)
        await line.until_received(b"}")
        assert refusal_in(bytes(line.received)) == (413, "body_too_large")
        await world.until_nothing_is_left()
        assert world.homeserver.lines == []

    in_a_world(tell, bodies={"max_json_bytes": 1000})


@pytest.mark.parametrize("request_", [post(1000), chunked(b"y" * 1000, 3)], ids=["length", "chunks"])
def test_a_body_of_just_the_size_that_may_be_passes(in_a_world, request_):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await ask(world, request_)
        await line.until_received(OK)

    in_a_world(tell, bodies={"max_json_bytes": 1000})


def test_chunks_that_grow_too_large_on_disk_leave_no_file(in_a_world):
    async def tell(world):
        line, _ = await connect(world)
        await line.send(chunked(noise(LARGE), 9000))
        assert refusal_in(await line.until_ended()) == (413, "body_too_large")
        assert requests_stores(world).spooled_total == 1
        await world.until_nothing_is_left()
        assert world.homeserver.lines == []

    in_a_world(tell, bodies={"max_json_bytes": 1_000_000})


# Large, and of whom?

SMALL_CONFIRM = {"bodies": {"confirm_above_bytes": 1000}}
UNKNOWN = with_body(401, b'{"errcode":"M_UNKNOWN_TOKEN","error":"who?"}')
LARGE_OF = {
    "of nobody": (b"", None, (401, "missing_token")),
    "with two tokens": (TOKEN + b"Authorization: Bearer u\r\n", None, (401, "missing_token")),
    "with a token of nobody": (TOKEN, whoami_of({}), UNKNOWN),
    "while the homeserver cannot say whose": (TOKEN, whoami_of({}, unknown=500), (503, "identity_unknown")),
}


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize(("fields", "whoami", "refusal"), LARGE_OF.values(), ids=LARGE_OF)
def test_a_large_body_is_read_for_nobody_but_an_account(in_a_world, framing, fields, whoami, refusal):
    async def tell(world):
        world.homeserver.begin(()).whoami = whoami
        line, _ = await connect(world)
        if framing == "length":
            await line.send(head_of(1001, target=ROOMS, fields=fields + b"Expect: 100-continue\r\n"))
        else:
            await line.send(chunked(noise(2000), 100, target=ROOMS, fields=fields)[:-300])
        await line.until_received(b"}")
        answer = bytes(line.received)
        if isinstance(refusal, bytes):
            head, _, body = refusal.partition(b"\r\n\r\n")
            assert answer.startswith(head)
            assert answer.endswith(b"\r\n\r\n" + body)
        else:
            assert refusal_in(answer) == refusal
        await line.until_ended()
        await world.until_nothing_is_left()
        assert world.homeserver.script.requests == []

    in_a_world(tell, **SMALL_CONFIRM)


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_large_body_of_an_account_is_read_once_it_is_known(in_a_world, framing):
    payload = noise(5000)
    request = (
        head_of(5000, target=ROOMS, fields=TOKEN) + payload
        if framing == "length"
        else chunked(payload, 900, target=ROOMS, fields=TOKEN)
    )

    async def tell(world):
        script = world.homeserver.begin((Answer(OK),))
        line = await ask(world, request)
        await lookups_arrived(world, 1)
        answer_lookup(world, 0, with_body(200, b'{"user_id":"@alice:a","device_id":"D"}'))
        await line.until_received(OK)
        assert body_of(script.requests[0]) == request.partition(b"\r\n\r\n")[2]

    in_a_world(tell, **SMALL_CONFIRM)


def test_a_large_body_where_no_token_is_taken_needs_none(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await ask(world, post(5000, target=b"/_matrix/federation/v1/send/1"))
        await line.until_received(OK)

    in_a_world(tell, **SMALL_CONFIRM)
