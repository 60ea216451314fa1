"""What has no lane is bounded by the connections to the homeserver all the same, and leaves some to everybody else."""

import pytest
from clients import THINKS, ask, connect, get, hints_of, requests_arrived, some_turns, whoami_of
from harness import OK, Answer, refusal_in, until

from proxy import clock

VERSIONS = get(b"/_matrix/client/versions")
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SET = b"/_matrix/client/v3/pushers/set"
PUSHER = b'{"app_id":"a","pushkey":"p","kind":"http","data":{}}'
FIRST_SYNC = b"/_matrix/client/v3/sync?timeout=30000"


def websocket(fields=b""):
    return get(
        b"/ws", fields=b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n" + fields
    )


def address(number):
    return f"127.0.3.{number + 1}"


@pytest.mark.parametrize("mode", ["enforce", "report"])
def test_tunnels_leave_connections_to_everybody_else(in_a_world, mode):
    async def tell(world):
        world.homeserver.begin((Answer(SWITCHED),) * 2 + (Answer(OK),))
        for number in range(2):
            line = await ask(world, websocket(), address(number))
            await line.until_received(SWITCHED)
        refused = await ask(world, websocket(), address(2))
        await until(lambda: refused.received)
        assert refusal_in(bytes(refused.received)) == (429, "tunnels_total")
        hints_of(bytes(refused.received))
        honest = await ask(world, VERSIONS, address(3))
        await honest.until_received(OK)

    in_a_world(tell, mode=mode, homeserver={"connections": 8})


def test_who_asks_and_leaves_again_and_again_closes_one_lane_and_not_the_homeserver(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 12 + (Answer(OK),))
        lines = []
        for number in range(12):
            lines.append(
                await ask(world, get(b"/_matrix/client/v3/directory/room/%23a%3Ab"), address(number))
            )
            if number < 4:
                await requests_arrived(world, number + 1)
                lines[-1].reset()
                await until(lambda held=number + 1: world.workers("remote")[1] == held)
        assert world.workers("remote") == (0, 4, 8)
        honest = await ask(world, VERSIONS, "127.0.4.1")
        await requests_arrived(world, 5)
        assert world.workers("vital")[0] == 1
        honest.transport.abort()

    # Two workers of the remote lane, of which none may be held without counting, and two more that are.
    in_a_world(tell, lanes={"requests": {"workers": 4}, "remote": {"workers": 2}})


def test_a_tunnel_gives_its_place_at_the_gate_back(in_a_world):
    async def tell(world):
        def gate():
            return world.application.pipeline.background.gate.statistics(clock.now())

        world.homeserver.begin((Answer(SWITCHED),))
        line = await ask(world, websocket(b"Fairgate-Class: background\r\n"))
        await line.until_received(SWITCHED)
        assert (gate().active, gate().held, gate().limit) == (0, 0, 2)
        line.transport.abort()
        await world.until_nothing_is_left()

    in_a_world(tell)


def test_the_end_of_a_tunnels_client_is_passed_on_behind_what_could_not_be_read_yet(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((Answer(SWITCHED),))
        line, connection = await connect(world)
        await line.send(websocket())
        await line.until_received(SWITCHED)
        homeserver = world.homeserver.lines[script.requests[0].connection]
        homeserver.transport.pause_reading()
        sent = 0
        while not connection.paused:
            line.transport.write(b"z" * 4_096)
            sent += 4_096
            await some_turns(5)
        line.transport.write_eof()
        await until(lambda: not line.transport.get_write_buffer_size())
        homeserver.transport.resume_reading()
        await until(lambda: homeserver.ended)
        assert script.requests[-1].data == b"z" * sent

    in_a_world(tell)


def test_a_registration_does_not_wait_for_those_before_it_longer_than_a_line_lasts(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 3).whoami = whoami_of({b"t": "@a:b"})
        request = (
            b"POST %b HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nContent-Length: %d\r\n\r\n%b"
            % (
                SET,
                len(PUSHER),
                PUSHER,
            )
        )
        pushers = world.application.pipeline.pushers
        await ask(world, request)
        await until(lambda: pushers.cap.statistics().in_turn == 1)
        second = await ask(world, request)
        await until(lambda: pushers.cap.statistics().waiting == 1)
        pushers.turn(clock.now() + 29)
        assert not second.received
        pushers.turn(clock.now() + 31)
        await until(lambda: second.received)
        assert refusal_in(bytes(second.received)) == (429, "line_timeout")
        assert pushers.cap.statistics().waiting == 0

    in_a_world(tell)


def test_a_sync_that_waits_for_nothing_has_the_time_of_its_lane(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,))
        _, connection = await connect(world)
        line = await ask(world, get(b"/_matrix/client/v3/sync?since=1&timeout=0"))
        await requests_arrived(world, 1)
        exchanges = [c.exchange for c in world.application.listener.connections if c.exchange is not None]
        assert [exchange.deadline_s for exchange in exchanges] == [180.0]
        line.transport.abort()
        assert connection.exchange is None

    in_a_world(tell)


def test_first_syncs_of_an_account_that_only_are_reported_wait_for_nobody(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((THINKS,) * 2)
        script.whoami = whoami_of({b"t": "@a:b"})
        lines = [await ask(world, get(FIRST_SYNC, token=b"t")) for _ in range(2)]
        await until(lambda: len(script.requests) == 2)
        reported = world.application.pipeline.recorder.reported_total
        assert sum(reported.values()) == 1
        for line in lines:
            line.transport.abort()

    in_a_world(tell, mode="report")


def test_a_look_up_waits_for_a_connection_no_longer_than_for_its_answer(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,)).whoami = whoami_of({b"t": "@a:b"})
        await ask(world, get())
        await requests_arrived(world, 1)
        await ask(world, get(b"/_matrix/client/v3/joined_rooms", token=b"t"), address(1))
        identities = world.application.pipeline.identity.identities
        await until(lambda: identities.statistics().running == 1 and world.pool_places()[3] == 1)
        world.application.pool.end_waits(clock.now() + 4.9)
        assert identities.statistics().running == 1
        world.application.pool.end_waits(clock.now() + 5.1)
        assert identities.statistics().running == 0

    in_a_world(tell, homeserver={"connections": 1})
