"""The PROXY header on real sockets: who is believed, who is closed, and what the homeserver is told."""

import socket
import struct

import pytest
from harness import BYTES, OK, WHOLE, Answer, Line, refusal_in, until

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
V1 = b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n"
V1_V6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 4000 443\r\n"
V1_UNKNOWN = b"PROXY UNKNOWN\r\n"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V2_LOCAL = SIGNATURE + b"\x20\x00\x00\x00"


def v2(family, addresses, fields=b""):
    return SIGNATURE + struct.pack(">BBH", 0x21, family, len(addresses + fields)) + addresses + fields


V2 = v2(0x11, socket.inet_aton("192.0.2.7") + socket.inet_aton("192.0.2.1") + b"\x10\x00\x01\xbb")
V2_V6 = v2(
    0x21,
    socket.inet_pton(socket.AF_INET6, "2001:db8::7") + socket.inet_pton(socket.AF_INET6, "::1") + b"\x10\x00\x01\xbb",
    b"\x03\x00\x04abcd",
)  # fmt: skip
V2_UNIX = v2(0x31, b"/run/client".ljust(108, b"\x00") + b"/run/proxy".ljust(108, b"\x00"))
NAMED = {
    "v1": (V1, b"192.0.2.7"),
    "v1 of IPv6": (V1_V6, b"2001:db8::7"),
    "v1 that names nobody": (V1_UNKNOWN, b"127.0.0.1"),
    "v2": (V2, b"192.0.2.7"),
    "v2 of IPv6 with a checksum": (V2_V6, b"2001:db8::7"),
    "v2 of the proxy itself": (V2_LOCAL, b"127.0.0.1"),
    "v2 of a Unix socket": (V2_UNIX, b"127.0.0.1"),
}


def behind_a_proxy(*trusted, **settings):
    return {
        "listen": [{"address": "127.0.0.1:0", "proxy_protocol": True}],
        "clients": {"trusted_proxies": list(trusted or ("127.0.0.1",))},
        **settings,
    }


def turned_away(world):
    totals = world.application.listener.statistics().turned_away_total
    return {name: total for name, total in totals.items() if total}


@pytest.mark.parametrize("cut", [WHOLE, BYTES], ids=lambda cut: cut.name)
@pytest.mark.parametrize("name", NAMED)
def test_the_client_is_who_the_header_names(in_a_world, name, cut):
    header, address = NAMED[name]

    async def tell(world):
        world.homeserver.begin((Answer(OK), Answer(OK)))
        line = await world.connect()
        await line.send(header + GET, cut)
        await line.until_received(OK)
        await line.send(GET)  # and stays so
        await line.until_received(OK + OK)
        for request in world.homeserver.script.requests:
            assert b"\r\nX-Forwarded-For: %s\r\n" % address in request.data
            assert b"PROXY" not in request.data
        line.transport.abort()

    in_a_world(tell, **behind_a_proxy())


def test_a_header_and_the_request_behind_it_may_come_apart(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(V2)
        await until(lambda: world.application.listener.states()["first_byte"] == 1)
        await line.send(GET)
        await line.until_received(OK)
        line.transport.abort()

    in_a_world(tell, **behind_a_proxy())


def test_a_client_that_a_proxy_names_may_not_name_others(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(V1 + GET[:-2] + b"X-Forwarded-For: 198.51.100.1\r\n\r\n")
        await line.until_received(OK)
        request = world.homeserver.script.requests[0].data
        assert b"\r\nX-Forwarded-For: 192.0.2.7\r\n" in request
        assert b"198.51.100.1" not in request
        line.transport.abort()

    in_a_world(tell, **behind_a_proxy())


def test_a_proxy_behind_a_proxy_is_believed_in_its_turn(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(V1 + GET[:-2] + b"X-Forwarded-For: 198.51.100.1\r\n\r\n")
        await line.until_received(OK)
        assert b"\r\nX-Forwarded-For: 198.51.100.1\r\n" in world.homeserver.script.requests[0].data
        line.transport.abort()

    in_a_world(tell, **behind_a_proxy("127.0.0.1", "192.0.2.0/24"))


def test_a_peer_that_is_not_trusted_is_closed_at_once(in_a_world):
    async def tell(world):
        line = await world.connect()
        assert await line.until_ended() == b""
        assert turned_away(world) == {"untrusted_proxy": 1}
        assert not len(world.application.listener.connections)

    in_a_world(tell, **behind_a_proxy("10.0.0.0/8"))


@pytest.mark.parametrize(
    "said",
    [
        GET,
        V1.lower() + GET,
        V1.replace(b"TCP4", b"TCP5") + GET,
        V1.replace(b"\r\n", b"\n") + GET,
        V1.replace(b"192.0.2.7", b"192.0.2.777") + GET,
        b"PROXY " + b"a" * 200,
        SIGNATURE + b"\x31\x11\x00\x0c",
        SIGNATURE + b"\x21\x11\x00\x0b" + b"a" * 11,
        SIGNATURE + b"\x21\x11\xff\xff",
        b"\x16\x03\x01\x02\x00\x01",
    ],
)
def test_what_is_no_header_closes_without_a_word(in_a_world, said):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(said)
        assert await line.until_ended() == b""
        assert world.homeserver.script.requests == []
        assert turned_away(world) == {"proxy_header": 1}

    in_a_world(tell, **behind_a_proxy())


@pytest.mark.parametrize("said", [b"", V1[:10], V2[:20], V1, V2])
def test_the_first_byte_deadline_counts_from_the_beginning(in_a_world, said):
    async def tell(world):
        line = await world.connect()
        await line.send(said)
        assert await line.until_ended() == b""
        await until(lambda: not len(world.application.listener.connections))

    in_a_world(tell, **behind_a_proxy(connections={"first_byte_seconds": 0.15}))


def test_a_head_behind_a_header_has_its_own_deadline(in_a_world):
    async def tell(world):
        line = await world.connect()
        await line.send(V1 + GET[:10])
        assert refusal_in(await line.until_ended()) == (408, "head_timeout")

    in_a_world(tell, **behind_a_proxy(connections={"head_seconds": 0.15}))


@pytest.mark.parametrize("how", ["resets", "closes"])
@pytest.mark.parametrize("said", [b"", V1[:10], V1])
def test_a_proxy_may_leave_at_any_time(in_a_world, said, how):
    async def tell(world):
        line = await world.connect()
        await line.send(said)
        await until(lambda: len(world.application.listener.connections) == 1)
        if how == "resets":
            line.reset()
        else:
            line.transport.close()
        await until(lambda: not len(world.application.listener.connections))

    in_a_world(tell, **behind_a_proxy())


def test_a_proxy_on_a_unix_socket_is_trusted_by_its_name(in_a_world, tmp_path, loop):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        _, line = await loop.create_unix_connection(Line, str(tmp_path / "s"))
        await line.send(V1 + GET)
        await line.until_received(OK)
        assert b"\r\nX-Forwarded-For: 192.0.2.7\r\n" in world.homeserver.script.requests[0].data
        line.transport.abort()

    listen = [
        {"address": "127.0.0.1:0"},
        {"address": f"unix:{tmp_path / 's'}", "proxy_protocol": True},
    ]
    in_a_world(tell, **behind_a_proxy("unix", listen=listen))


def test_connections_behind_headers_are_ended_by_a_stop(in_a_world):
    async def tell(world):
        lines = [await world.connect() for _ in range(2)]
        await lines[1].send(V1[:5])
        await until(lambda: world.application.listener.states()["proxy_header"] == 2)
        world.application.listener.stop_accepting()
        for line in lines:
            assert await line.until_ended() == b""

    in_a_world(tell, **behind_a_proxy())
