import asyncio

import pytest
from client_support import GET, OK, Client

from proxy import clock
from proxy.errors import Reason
from proxy.http1.life_cycle import State

POST = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
LONG = 300_000


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def run(loop):
    """Run `tell(client)` in a loop, with a connection of the given settings."""
    clients = []

    def run(tell, *args, **settings):
        async def whole():
            client = Client(*args, **settings)
            clients.append(client)
            await tell(client)

        loop.run_until_complete(whole())
        for client in clients:
            client.close()

    return run


def test_a_thousand_requests_sent_ahead_that_are_all_refused_at_once_are_all_answered(run):
    async def tell(client):
        client.send(GET * 500)
        client.send(GET * 500)
        await client.until_all_ahead_is_served()
        assert client.transport.written == b"<line_full>" * 1000
        assert client.connection.state is State.PARKED
        assert client.connection.kept == b""

    run(tell, lambda exchange: exchange.client.refuse(Reason.LINE_FULL))


def test_of_what_is_sent_ahead_only_a_few_requests_are_served_before_others_are_heard(run):
    async def tell(client):
        client.send(GET * 500)
        assert client.transport.written == b"<line_full>"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert client.transport.written.count(b"<line_full>") < 20
        client.send(GET * 2000)
        assert client.transport.paused, "more than 16 KiB ahead"
        await client.until_all_ahead_is_served()
        assert client.transport.written == b"<line_full>" * 2500
        assert not client.transport.paused

    run(tell, lambda exchange: exchange.client.refuse(Reason.LINE_FULL))


def test_what_was_sent_ahead_is_dropped_with_its_client(run):
    async def tell(client):
        client.send(GET * 500)
        client.connection.turn_away()
        await asyncio.sleep(0)
        assert client.transport.written == b"<line_full>"
        assert not client.connection.in_turn

    run(tell, lambda exchange: exchange.client.refuse(Reason.LINE_FULL))


def test_an_end_behind_what_was_sent_ahead_comes_after_it(run):
    async def tell(client):
        client.send(GET * 50)
        assert client.connection.eof_received()
        await client.until_all_ahead_is_served()
        assert client.transport.written == b"<line_full>" * 50
        assert client.connection.state is State.LINGER

    run(tell, lambda exchange: exchange.client.refuse(Reason.LINE_FULL))


def test_what_follows_a_request_that_is_served_waits_for_its_answer(run):
    async def tell(client):
        client.send(GET * 3)
        client.serve()
        assert len(client.pipeline.exchanges) == 1
        client.connection.write(OK)
        client.exchange.answered(clock.now())
        await asyncio.sleep(0)
        assert len(client.pipeline.exchanges) == 2
        assert client.connection.state is State.IN_SERVICE

    run(tell)


def test_an_answer_that_waited_for_its_client_leaves_nothing_behind_in_a_parked_connection(run):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.connection.write(b"a" * LONG)
        client.connection.write(b"b" * LONG)
        assert client.pipeline.answers.open == 1
        async with asyncio.timeout(5):
            while len(client.transport.written) < 2 * LONG or client.connection.client_full:
                client.transport.take()
                await asyncio.sleep(0)
        client.connection.write(b"c")  # in time, so it goes straight to the client
        client.exchange.answered(clock.now())
        assert client.connection.state is State.PARKED
        assert client.connection.outbox is None
        assert client.pipeline.answers.open == 0
        assert client.transport.written == b"a" * LONG + b"b" * LONG + b"c"

    run(tell)


def test_what_went_straight_to_the_client_counts_as_moved_when_it_is_slow_again(run):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.connection.write(b"a" * LONG)
        client.transport.take_everything()
        client.connection.write(b"b" * LONG)
        outbox = client.connection.outbox
        outbox.too_slow(clock.now())
        assert outbox.floor.moved_bytes == LONG

    run(tell)


@pytest.mark.parametrize("size", [5_000, 40_000, 69_000])
def test_what_a_client_does_not_take_is_charged_to_memory_and_not_left_to_the_transport(run, size):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.transport.room = 4_000
        client.connection.write(b"a" * size)
        assert client.transport.get_write_buffer_size() <= 4_000 + 1_024
        assert client.pipeline.answers.memory.taken == size
        client.transport.take_everything()
        assert client.pipeline.answers.memory.taken == 0
        assert client.transport.written == b"a" * size

    run(tell)


def test_a_client_that_takes_more_in_the_middle_of_a_write_gets_all_of_it(run):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.connection.write(b"a" * 66_000)  # an outbox that never had to keep anything
        client.transport.take_everything()
        assert client.connection.outbox is not None

        client.transport.misses = 1  # its kernel has no room, and has some when the transport tries
        client.connection.write(b"b" * LONG)
        client.transport.take_everything()
        assert client.transport.written == b"a" * 66_000 + b"b" * LONG

    run(tell)


def test_a_refusal_comes_behind_interim_answers_that_wait_for_the_client(run):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.connection.write(b"a" * LONG)  # of a 103: what it hints at may be long
        client.exchange.fail(Reason.UPSTREAM_CLOSED, clock.now())
        client.transport.take_everything()
        assert client.transport.written == b"a" * LONG + b"<upstream_closed>"
        assert client.connection.state is State.PARKED

    run(tell)


def test_one_answer_waits_for_a_client_that_takes_nothing_however_much_it_asked(run):
    async def tell(client):
        client.send(GET * 100)
        client.serve()
        client.connection.write(b"a" * LONG)
        client.exchange.answered(clock.now())
        assert len(client.pipeline.exchanges) == 1
        client.transport.take_everything()
        await asyncio.sleep(0)
        assert len(client.pipeline.exchanges) == 2

    run(tell)


def test_a_body_is_looked_at_again_once_the_client_has_taken_what_waited_for_it(run):
    async def tell(client):
        client.send(POST % LONG + b"a" * 10)
        client.pipeline.read_body(client.exchange)
        client.serve()
        client.connection.write(b"a" * LONG)
        client.transport.take_everything()
        assert client.connection.deadline_at < clock.now() + 2
        client.connection.deadline_passed(clock.now() + 1000)
        assert client.transport.written.endswith(b"<body_timeout>")

    run(tell)


def test_time_does_not_count_for_a_body_that_was_not_read_from_its_beginning(run):
    async def tell(client):
        client.send(POST % LONG + b"a" * 40_000)
        assert client.transport.paused
        client.connection.upstream_full = True  # as a store that has no room tells
        client.pipeline.read_body(client.exchange)
        assert client.transport.paused
        assert client.exchange.body.floor.paused
        client.connection.set_upstream_full(full=False)
        assert not client.exchange.body.floor.paused

    run(tell)


def test_a_tunnel_whose_first_bytes_fill_the_client_waits_for_it(run):
    async def tell(client):
        client.send(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        upstream = client.serve()
        client.connection.write(b"101")
        client.connection.tunnel_began()
        client.connection.tunnel_bytes(b"a" * LONG)
        assert upstream.client_full
        client.transport.take()
        assert not upstream.client_full
        assert client.connection.outbox is None

    run(tell)


def test_an_answer_that_only_its_end_ends_is_reset_when_there_is_no_time_for_it(run):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.exchange.answer_began = client.exchange.closes = True
        client.connection.write(b"HTTP/1.1 200 OK\r\n\r\nabc")
        client.connection.stop_now()
        assert client.transport.end == "aborted"

    run(tell)


def test_a_client_that_leaves_while_its_answer_waits_leaves_nothing_behind(run):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.connection.write(b"a" * LONG)
        client.connection.write(b"b" * LONG)
        client.exchange.answered(clock.now())
        assert client.connection.state is State.IN_SERVICE
        assert client.connection.eof_received() is False
        assert client.connection.state is State.CLOSED
        assert client.pipeline.answers.open == 0
        assert client.left == [client.pipeline.exchanges[0]]

    run(tell)


def test_a_client_that_takes_nothing_of_its_answer_is_let_go(run):
    async def tell(client):
        client.send(GET)
        client.serve()
        client.connection.write(b"a" * LONG)
        client.connection.deadline_passed(clock.now() + 1)
        assert client.transport.end is None
        client.connection.deadline_passed(clock.now() + 100)
        assert client.transport.end == "aborted"

    run(tell)
