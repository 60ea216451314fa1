"""What the log and `/readyz` say of how it goes with the homeserver."""

from harness import OK, Answer, until
from structlog.testing import capture_logs
from test_life_of_a_connection import a_closed_port

GET = b"GET /_matrix/client/v3/rooms/!r:a/state HTTP/1.1\r\nHost: a\r\n\r\n"


def told(lines):
    return [line for line in lines if line["event"] == "homeserver cannot be reached"]


def test_why_the_homeserver_cannot_be_reached_is_told_once(in_a_world):
    port = a_closed_port()

    async def tell(world):
        line = await world.connect()
        with capture_logs() as lines:
            for _ in range(3):
                await line.send(GET)
                await line.until_received(b"}")
                line.received.clear()
        (warning,) = told(lines)
        assert warning["log_level"] == "warning"
        assert warning["address"] == f"127.0.0.1:{port}"
        assert "refused" in warning["cause"].lower()
        assert warning["failing_seconds"] < 5
        line.transport.abort()

    in_a_world(tell, homeserver_port=port)


def test_a_homeserver_that_answers_is_not_complained_of(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        with capture_logs() as lines:
            await line.send(GET)
            await line.until_received(OK)
        assert told(lines) == []
        line.transport.abort()

    in_a_world(tell)


def test_ready_tells_a_homeserver_that_is_not_there_from_one_that_has_not_said_what_it_is(in_a_world):
    async def tell(world):
        application = world.application
        assert await application._why_not_ready() is None
        application.profile = None
        assert "has not said yet what it is" in await application._why_not_ready()

    async def tell_of_none(world):
        assert await world.application._why_not_ready() == "the homeserver does not answer"

    in_a_world(tell)
    in_a_world(tell_of_none, homeserver_port=a_closed_port())


def test_the_line_of_a_request_tells_its_wait_from_its_service(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(b""),))
        line = await world.connect()
        with capture_logs() as told:
            await line.send(GET)
            await until(lambda: len(world.homeserver.script.requests) == 1)
            world.homeserver.lines[0].transport.write(OK)
            await line.until_received(OK)
        (said,) = (line for line in told if line["event"] == "request")
        assert said["wait_seconds"] == 0
        assert 0 < said["service_seconds"] <= said["seconds"]
        answers = world.application.snapshot().answers_total
        assert answers["requests"]["2xx"] == 1
        line.transport.abort()

    in_a_world(tell, log={"access": "all"})
