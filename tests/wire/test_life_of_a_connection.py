"""Deadlines and ends on real sockets. Where a test waits, it waits for an end that must come."""

import asyncio
import socket
import time

import pytest
from clients import GET, SHORT_S, THINKS, answer_request, connect, field, hints_of, requests_arrived
from harness import OK, Answer, marked, refusal_in, until

from proxy import clock


def connections(**settings):
    return {"connections": settings}


def test_a_client_that_says_nothing_is_closed_in_silence(in_a_world):
    async def tell(world):
        line = await world.connect()
        assert await line.until_ended() == b""

    in_a_world(tell, **connections(first_byte_seconds=SHORT_S))


@pytest.mark.parametrize(
    "said", [b"G", b"GET /x HTTP/1.1\r\nHost: a\r\n", b"GET /x HTTP/1.1\r\nHost: a\r\n\r"]
)
def test_a_head_that_does_not_come_to_its_end_is_answered_408(in_a_world, said):
    async def tell(world):
        line = await world.connect()
        await line.send(said)
        assert refusal_in(await line.until_ended()) == (408, "head_timeout")
        assert world.homeserver.lines == []

    in_a_world(tell, **connections(head_seconds=SHORT_S))


def test_bytes_of_a_head_do_not_put_its_deadline_off(in_a_world):
    async def tell(world):
        line = await world.connect()
        began = time.monotonic()
        await line.send(b"GET /x HTTP/1.1\r\n")
        while line.ended is None:
            await line.send(b"X")
            assert time.monotonic() - began < 5
        assert refusal_in(await line.until_ended()) == (408, "head_timeout")

    in_a_world(tell, **connections(head_seconds=SHORT_S))


def test_a_parked_connection_is_closed_in_silence(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(GET)
        assert await line.until_ended() == OK

    in_a_world(tell, **connections(keep_alive_idle_seconds=SHORT_S))


@pytest.mark.parametrize("line_end", [b"\r", b"\r\n"])
@pytest.mark.parametrize("with_the_request", [True, False])
def test_an_empty_line_behind_a_request_is_no_part_of_a_head(in_a_world, line_end, with_the_request):
    """As clients send that mean well with a body's end (RFC 9112 §2.2): the connection is parked all the same."""

    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(GET + line_end if with_the_request else GET)
        await line.until_received(OK)
        if not with_the_request:
            await line.send(line_end)
        assert await line.until_ended() == OK

    in_a_world(tell, **connections(head_seconds=SHORT_S, keep_alive_idle_seconds=2 * SHORT_S))


@pytest.mark.parametrize(
    "pieces", [[b"\r\n", GET], [b"\r", b"\n", GET[:9], GET[9:]], [b"\r\n" + GET[:1], GET[1:]]]
)
def test_a_request_behind_an_empty_line_on_a_parked_connection_is_served(in_a_world, pieces):
    async def tell(world):
        script = world.homeserver.begin((Answer(OK), Answer(OK)))
        line = await world.connect()
        await line.send(GET)
        await line.until_received(OK)
        for piece in pieces:
            await line.send(piece)
        await until(lambda: line.received == OK + OK)
        assert [request.data[:7] for request in script.requests] == [b"GET /x "] * 2
        line.reset()

    in_a_world(tell)


def test_a_head_behind_an_empty_line_has_its_deadline_from_its_first_byte(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(GET + b"\r\n")
        await line.until_received(OK)
        await line.send(b"G")
        answer = await line.until_ended()
        assert refusal_in(answer.removeprefix(OK)) == (408, "head_timeout")

    in_a_world(tell, **connections(head_seconds=SHORT_S))


def test_a_client_that_ends_behind_an_empty_line_is_closed(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(GET + b"\r\n")
        line.transport.write_eof()
        assert OK.startswith(await line.until_ended())

    in_a_world(tell)


def test_a_second_request_has_a_head_deadline_of_its_own(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(GET)
        await line.until_received(OK)
        await line.send(GET[:-2])
        answer = await line.until_ended()
        assert refusal_in(answer.removeprefix(OK)) == (408, "head_timeout")

    in_a_world(tell, **connections(head_seconds=SHORT_S))


def test_the_answer_to_the_last_request_a_connection_may_have_says_so(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 3)
        line = await world.connect()
        await line.send(GET * 3)
        first, second, rest = (await line.until_ended()).partition(b"okHTTP")
        assert field(first, b"Connection") is None
        assert field(second + rest, b"Connection") == "close"
        assert len(world.homeserver.script.requests) == 2

    in_a_world(tell, **connections(max_requests=2))


def test_the_answer_on_an_old_connection_is_its_last(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 2)
        line = await world.connect()
        await until(lambda: time.monotonic() > line_opened_at + 0.05)
        await line.send(GET)
        assert field(await line.until_ended(), b"Connection") == "close"

    line_opened_at = time.monotonic()
    in_a_world(tell, **connections(max_age_seconds=0.01))


def test_a_refused_client_that_goes_on_sending_sees_the_answer(in_a_world):
    async def tell(world):
        line = await world.connect()
        await line.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n")
        await line.until_received(b"}")
        for _ in range(12):
            await line.send(b"a" * 65_536)
        assert refusal_in(await line.until_ended()) == (400, "bad_length")
        await until(lambda: not len(world.application.listener.connections))

    in_a_world(tell)


def test_a_refused_client_that_goes_on_without_end_is_let_go(in_a_world):
    async def tell(world):
        line = await world.connect()
        await line.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n")
        began = time.monotonic()
        while not line.transport.is_closing():
            await line.send(b"a" * 65_536)
            assert time.monotonic() - began < 5
        assert refusal_in(bytes(line.received)) == (400, "bad_length")

    in_a_world(tell)


def test_a_refused_client_that_never_closes_is_closed(in_a_world):
    async def tell(world):
        line = await world.connect()
        await line.send(b"GET /x HTTP/1.1\r\n\r\n")
        await line.until(lambda: line.ended is not None)
        await until(lambda: not len(world.application.listener.connections))
        line.transport.abort()

    in_a_world(tell)


def leave(line, how):
    if how == "resets":
        line.reset()
    elif how == "ends":
        line.transport.write_eof()
    else:
        line.transport.close()


HOW = pytest.mark.parametrize("how", ["resets", "closes", "ends"])
ENDS_WITH_CLIENT = {"profile": "tuwunel"}  # every GET
UNSENT = {
    "before a byte": b"",
    "in a head": GET[:20],
    "in a body": b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
    "in chunks": b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    "in a long body": b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n" + b"a" * 200_000,
}


@HOW
@pytest.mark.parametrize("stage", UNSENT)
def test_a_client_may_leave_before_its_request_is_whole_and_nobody_hears_of_it(in_a_world, stage, how):
    async def tell(world):
        line, connection = await connect(world)
        await line.send(UNSENT[stage])
        if stage == "in a long body":
            await until(lambda: connection.exchange.body.read_bytes == 200_000)
        leave(line, how)
        await until(lambda: not len(world.application.listener.connections))
        await world.until_nothing_is_left()
        assert world.homeserver.lines == []

    in_a_world(tell)


AHEAD = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n" + b"a" * 50_000
SENT = {
    "a request": GET,
    "a request with more sent ahead than is kept": GET + AHEAD,
    "a request with a body": b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "a request with chunks": b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
}  # fmt: skip


@HOW
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_what_the_homeserver_works_on_goes_on_for_nobody_and_holds_its_worker(in_a_world, sent, how):
    async def tell(world):
        world.homeserver.begin((THINKS, Answer(OK)))
        line, connection = await connect(world)
        await line.send(sent)
        await requests_arrived(world, 1)
        await until(lambda: connection.paused or sent != SENT["a request with more sent ahead than is kept"])
        leave(line, how)
        await until(lambda: not len(world.application.listener.connections))
        assert world.workers() == (0, 1, 0)
        assert world.pool_places() == (0, 0, 1, 0)
        assert world.homeserver.lines[0].ended is None
        answer_request(world, 0, OK)
        await world.until_nothing_is_left()
        other, _ = await connect(world)
        await other.send(GET)
        await other.until_received(OK)
        assert [request.connection for request in world.homeserver.script.requests] == [0, 0]
        assert bytes(line.received) == b"", "the answer went to nobody"

    in_a_world(tell)


@HOW
@pytest.mark.parametrize("sent", [SENT["a request"], SENT["a request with more sent ahead than is kept"]])
def test_what_a_homeserver_ends_with_its_client_ends_at_once(in_a_world, sent, how):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        line, connection = await connect(world)
        await line.send(sent)
        await requests_arrived(world, 1)
        await until(lambda: connection.paused or sent == GET)
        leave(line, how)
        await until(lambda: not len(world.application.listener.connections))
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)
        assert world.pool_places() == (0, 0, 0, 0)

    in_a_world(tell, homeserver=ENDS_WITH_CLIENT)


@HOW
def test_the_rest_of_an_answer_is_read_for_a_client_that_left_in_its_middle(in_a_world, how):
    async def tell(world):
        world.homeserver.begin((Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), Answer(OK)))
        line, _ = await connect(world)
        await line.send(GET)
        await line.until_received(b"abc")
        leave(line, how)
        await until(lambda: world.workers() == (0, 1, 0))
        assert world.homeserver.lines[0].ended is None
        answer_request(world, 0, b"def")
        for _ in range(10):
            await asyncio.sleep(0)
        assert world.workers() == (0, 1, 0)
        answer_request(world, 0, b"ghi")
        await world.until_nothing_is_left()
        assert world.pool_places() == (0, 1, 0, 0)

    in_a_world(tell)


@HOW
def test_an_answer_that_ends_with_its_client_is_not_read_on(in_a_world, how):
    async def tell(world):
        world.homeserver.begin((Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),))
        line, _ = await connect(world)
        await line.send(GET)
        await line.until_received(b"abc")
        leave(line, how)
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)

    in_a_world(tell, homeserver=ENDS_WITH_CLIENT)


@pytest.mark.parametrize("how", ["resets", "closes"])
def test_a_client_may_leave_a_tunnel(in_a_world, how):
    async def tell(world):
        switch = b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        world.homeserver.begin((Answer(switch),))
        line = await world.connect()
        await line.send(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        await line.until_received(b"\r\n\r\n")
        if how == "resets":
            line.reset()
        else:
            line.transport.close()
        await until(lambda: world.pool_places() == (0, 0, 0, 0))
        await until(lambda: not len(world.application.listener.connections))

    in_a_world(tell)


@HOW
def test_a_tunnel_that_the_homeserver_opens_for_nobody_ends_at_once(in_a_world, how):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        line, _ = await connect(world)
        await line.send(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        await requests_arrived(world, 1)
        leave(line, how)
        await until(lambda: world.workers() == (0, 1, 0))
        assert world.homeserver.lines[0].ended is None
        switch = b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello"
        answer_request(world, 0, switch)
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)
        assert world.pool_places() == (0, 0, 0, 0)

    in_a_world(tell)


def a_closed_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def test_a_homeserver_that_is_away_is_answered_502_with_hints_and_the_connection_lives_on(in_a_world):
    async def tell(world):
        line = await world.connect()
        for _ in range(3):
            line.received.clear()
            await line.send(GET)
            await line.until_received(b"}")
            answer = bytes(line.received)
            assert refusal_in(answer) == (502, "upstream_unreachable")
            assert 2 <= hints_of(answer) <= 9
            assert field(answer, b"Connection") is None
        line.transport.abort()

    in_a_world(tell, homeserver_port=a_closed_port())


def test_a_homeserver_that_is_away_is_told_of_when_the_body_is_read_and_the_connection_lives_on(in_a_world):
    async def tell(world):
        line, connection = await connect(world)
        await line.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel")
        await until(lambda: connection.exchange is not None and connection.exchange.body.left == 2)
        assert world.workers() == (0, 0, 0)
        await line.send(b"lo")
        await line.until_received(b"}")
        answer = bytes(line.received)
        assert refusal_in(answer) == (502, "upstream_unreachable")
        assert field(answer, b"Connection") is None
        assert line.ended is None

    in_a_world(tell, homeserver_port=a_closed_port())


def test_a_homeserver_that_is_away_costs_the_connection_where_a_body_is_still_to_come(in_a_world):
    async def tell(world):
        line, _ = await connect(world)
        await line.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n" + b"a" * 400_000)
        answer = await line.until_ended()
        assert refusal_in(answer) == (502, "upstream_unreachable")
        assert field(answer, b"Connection") == "close"
        await world.until_nothing_is_left()

    streams = {"spool_bytes": 0}
    in_a_world(tell, homeserver_port=a_closed_port(), bodies=streams)


def test_many_clients_of_a_homeserver_that_is_away_are_all_answered(in_a_world):
    async def tell(world):
        lines = [await world.connect() for _ in range(50)]
        for line in lines:
            await line.send(GET)
        for line in lines:
            await line.until_received(b"}")
            assert refusal_in(bytes(line.received)) == (502, "upstream_unreachable")
            line.transport.abort()
        assert world.pool_places() == (0, 0, 0, 0)

    in_a_world(tell, homeserver_port=a_closed_port(), homeserver={"connections": 2})


def test_an_answer_that_does_not_come_is_answered_504_with_hints_and_its_worker_held(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS, Answer(OK), Answer(OK)))
        line, _ = await connect(world)
        await line.send(GET)
        await line.until_received(b"}")
        answer = bytes(line.received)
        assert refusal_in(answer) == (504, "upstream_timeout")
        hints_of(answer)
        assert field(answer, b"Connection") is None
        assert world.workers() == (0, 1, 0)
        assert world.homeserver.lines[0].ended is None
        line.received.clear()
        await line.send(GET)
        await line.until_received(OK)
        assert world.workers() == (0, 1, 0)
        answer_request(world, 0, OK)
        await world.until_nothing_is_left()
        await line.send(GET)
        await line.until_received(OK + OK)
        assert [request.connection for request in world.homeserver.script.requests] == [0, 1, 0]

    in_a_world(tell, lanes={"requests": {"deadline_seconds": SHORT_S}})


def test_an_answer_that_does_not_come_is_given_up_where_the_homeserver_ends_with_its_client(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        line, _ = await connect(world)
        await line.send(GET)
        await line.until_received(b"}")
        assert refusal_in(bytes(line.received)) == (504, "upstream_timeout")
        await until(lambda: world.homeserver.lines[0].ended)
        await world.until_nothing_is_left()

    in_a_world(tell, lanes={"requests": {"deadline_seconds": SHORT_S}}, homeserver=ENDS_WITH_CLIENT)


def test_a_worker_held_for_as_long_as_may_be_is_free_again(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        line, _ = await connect(world)
        await line.send(GET)
        await requests_arrived(world, 1)
        line.reset()
        await until(lambda: world.workers() == (0, 1, 0))
        await world.until_nothing_is_left()
        await until(lambda: world.homeserver.lines[0].ended)

    in_a_world(tell, lanes={"max_hold_seconds": SHORT_S})


def test_an_answer_that_stops_in_its_middle_is_cut(in_a_world):
    async def tell(world):
        begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
        world.homeserver.begin((Answer(begun),))
        line = await world.connect()
        await line.send(GET)
        assert await line.until_ended() == begun

    in_a_world(tell, lanes={"requests": {"deadline_seconds": SHORT_S}})


def test_a_homeserver_that_does_not_accept_is_answered_504(in_a_world):
    async def tell(world):
        line = await world.connect()
        await line.send(GET)
        await line.until_received(b"}")
        answer = bytes(line.received)
        assert refusal_in(answer) == (504, "connect_timeout")
        hints_of(answer)
        line.transport.abort()

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        port = deaf.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for sock in waiting:  # these fill its backlog; SYNs after them are dropped
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        try:
            in_a_world(tell, homeserver_port=port, homeserver={"connect_timeout_seconds": SHORT_S})
        finally:
            for sock in waiting:
                sock.close()


def test_an_idle_connection_to_the_homeserver_is_closed(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(GET)
        await line.until_received(OK)
        await world.homeserver.lines[0].until_ended()
        line.transport.abort()

    in_a_world(tell, homeserver={"idle_seconds": SHORT_S})


def test_bytes_on_an_idle_connection_to_the_homeserver_end_it(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK), Answer(OK)))
        line = await world.connect()
        await line.send(GET)
        await line.until_received(OK)
        await world.homeserver.lines[0].send(OK)
        await world.homeserver.lines[0].until_ended()
        await line.send(GET)
        await line.until_received(OK + OK)
        assert [request.connection for request in world.homeserver.script.requests] == [0, 1]
        line.transport.abort()

    in_a_world(tell)


def test_requests_wait_for_a_connection_and_are_served_in_order(in_a_world):
    async def tell(world):
        answers = [Answer(OK.replace(b"ok", b"%02d" % number)) for number in range(20)]
        world.homeserver.begin(tuple(answers))
        lines = [await world.connect() for _ in range(20)]
        for number, line in enumerate(lines):
            await line.send(GET.replace(b"/x", b"/%02d" % number))
        for number, line in enumerate(lines):
            await line.until_received(b"\r\n\r\n%02d" % number)
            line.transport.abort()
        targets = [marked(request.data).split(b" ")[1] for request in world.homeserver.script.requests]
        assert targets == [b"/%02d" % number for number in range(20)]
        assert len(world.homeserver.lines) == 1

    in_a_world(tell, homeserver={"connections": 1})


def test_a_client_that_waits_for_a_connection_may_leave(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS, Answer(OK)))
        first, _ = await connect(world)
        await first.send(GET)
        await requests_arrived(world, 1)
        second, _ = await connect(world)
        await second.send(GET)
        await until(lambda: world.pool_places() == (0, 0, 1, 1))
        assert world.workers() == (2, 0, 0)
        second.reset()
        await until(lambda: world.pool_places() == (0, 0, 1, 0))
        assert world.workers() == (1, 0, 0)
        first.reset()
        await until(lambda: world.workers() == (0, 1, 0))
        answer_request(world, 0, OK)
        await world.until_nothing_is_left()
        assert len(world.homeserver.script.requests) == 1

    in_a_world(tell, homeserver={"connections": 1})


def test_one_too_many_takes_the_place_of_who_waits_longest_without_having_asked(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((THINKS, Answer(OK)))
        busy, _ = await connect(world)
        await busy.send(GET)
        await requests_arrived(world, 1)
        idle = [(await connect(world))[0] for _ in range(2)]
        newcomer, _ = await connect(world)
        assert await idle[0].until_ended() == b""
        await newcomer.send(GET)
        await newcomer.until_received(OK)
        answer_request(world, 0, OK)
        await busy.until_received(OK)
        assert idle[1].ended is None
        assert len(script.requests) == 2

    in_a_world(tell, **connections(max=3))


def test_one_too_many_is_closed_at_once_where_everybody_is_served(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 3)
        for number in range(3):
            line, _ = await connect(world)
            await line.send(GET)
            await requests_arrived(world, number + 1)
        assert await (await world.connect()).until_ended() == b""
        assert world.workers() == (3, 0, 0)

    in_a_world(tell, **connections(max=3))


def test_stopping_answers_what_is_in_service_and_who_is_parked_once_more(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 4)
        unused, used = [await world.connect() for _ in range(2)]
        for parked in (unused, used):
            await parked.send(GET)
            await parked.until_received(OK)
        busy = await world.connect()
        await busy.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        await until(lambda: world.application.listener.states()["in_service"] == 1)
        stopping = asyncio.ensure_future(world.stop_application(asyncio.Event()))
        await until(lambda: world.application.listener.stopping)
        await used.send(GET)
        assert field((await used.until_ended()).removeprefix(OK), b"Connection") == "close"
        assert unused.ended is None
        await busy.send(b"later")
        assert field(await busy.until_ended(), b"Connection") == "close"
        assert await unused.until_ended() == OK
        await stopping

    in_a_world(tell)


def test_a_parked_connection_is_not_closed_over_a_request_that_lies_unread(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK), Answer(OK)))
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", world.port)) as sock:
            sock.setblocking(False)
            sock.send(GET)
            assert await loop.sock_recv(sock, len(OK)) == OK
            await until(lambda: world.application.listener.states()["parked"] == 1)
            (connection,) = world.application.listener.connections
            sock.send(GET)
            connection.deadline_passed(connection.deadline_at)
            assert await loop.sock_recv(sock, len(OK)) == OK

    in_a_world(tell)


def test_newcomers_without_end_do_not_hold_up_a_stop(in_a_world, monkeypatch):
    async def tell(world):
        listener = world.application.listener
        one, other = socket.socketpair()
        world.ends.enter_context(one)
        world.ends.enter_context(other)
        other.send(b"x")  # a queue that is never empty
        monkeypatch.setattr(listener._entrances[0], "watch", lambda queued: queued.register(one.fileno()))
        loop, began, turns = asyncio.get_running_loop(), clock.now(), 0

        def one_more_turn():
            nonlocal turns
            turns += 1
            if accepting:
                loop.call_soon(one_more_turn)

        accepting = True
        one_more_turn()
        monkeypatch.setattr(clock, "now", lambda: began + 0.01 * turns)  # each takes 10 ms
        await listener.accept_queued()
        accepting = False
        monkeypatch.undo()
        assert turns < 100

    in_a_world(tell)


def test_an_answer_that_began_before_the_stop_does_not_hold_it(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK[:-1]),))
        line = await world.connect()
        await line.send(GET)
        await line.until_received(OK[:-1])
        stopping = asyncio.ensure_future(world.stop_application(asyncio.Event()))
        await until(lambda: world.application.listener.stopping)
        world.homeserver.lines[0].transport.write(OK[-1:])
        assert await line.until_ended() == OK
        await stopping

    in_a_world(tell)
