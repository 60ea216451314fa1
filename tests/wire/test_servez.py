"""`/servez`: may clients be sent here?"""

import asyncio

from harness import Answer, World, until

GET = b"GET /_matrix/client/v3/rooms/!r:a/state HTTP/1.1\r\nHost: a\r\n\r\n"


async def servez(world):
    host, _, port = world.application.operators.metrics_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /servez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


def test_clients_are_sent_here_until_the_stop_begins(in_a_world):
    async def tell(world: World):
        world.homeserver.begin((Answer(b""),))
        assert await servez(world) == (200, b"ok\n")
        busy = await world.connect()
        await busy.send(GET)
        await until(lambda: world.application.listener.states()["in_service"] == 1)
        at_once = asyncio.Event()
        stopping = asyncio.ensure_future(world.stop_application(at_once))
        await until(lambda: world.application.listener.stopping)
        answer = await servez(world)
        at_once.set()
        await busy.until_ended()
        await stopping
        assert answer == (503, b"stopping\n")

    in_a_world(tell)


def test_no_clients_are_sent_here_before_it_is_known_what_the_homeserver_is(in_a_world):
    async def tell(world: World):
        world.application.profile = None  # as `auto` begins
        assert await servez(world) == (503, b"the homeserver has not said what it is\n")

    in_a_world(tell)
