"""What goes out and comes back, byte for byte."""

import asyncio
import contextlib
import gzip
import socket

import pytest
from egress_support import CONTENT, NOTIFICATION, OK, delivery, get, in_world, parsed, turns, until

from proxy.egress.connection import ConnectionState

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_request_goes_on_as_it_came_and_so_does_its_answer():
    answer = b"HTTP/1.1 404 So Not Here\r\nX-B: 1\r\nx-a:  2\r\nX-A: 3\r\nContent-Length: 3\r\n\r\nabc"

    async def tell(world):
        host = await world.host(answer)
        client = await world.client()
        client.send(
            get("a.test", host.port, "/x%2F//../y?z=%00", b"x-b: 1\r\nX-B:  2\r\nAuthorization: Bearer t\r\n")
        )
        assert await client.until(b"abc") == answer
        assert host.requests == [
            b"GET /x%%2F//../y?z=%%00 HTTP/1.1\r\nx-b: 1\r\nX-B:  2\r\nAuthorization: Bearer t\r\nHost: a.test:%d\r\n\r\n"
            % host.port
        ]

    in_world(tell)


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_bodies_keep_their_framing_in_any_cut(step):
    async def tell(world):
        host = await world.host(CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        client = await world.client()
        request = (
            b"POST http://a.test:%d/x HTTP/1.1\r\nHost: a.test:%d\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            % (host.port, host.port)
        ) + delivery("a.test", host.port)
        for at in range(0, len(request), step):
            client.send(request[at : at + step])
            await asyncio.sleep(0)
        for _ in range(2):
            assert await client.until(b"0\r\n\r\n") == host.answer
        assert host.requests[0].endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert host.requests[1].endswith(NOTIFICATION)
        assert host.accepted == 1, "the connection to the host was kept"

    in_world(tell)


def test_requests_sent_ahead_are_answered_in_order():
    async def tell(world):
        first, second = await world.host(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"), await world.host()
        client = await world.client()
        client.send(get("a.test", first.port) + get("b.test", second.port) + get("a.test", first.port))
        assert [(await client.answer())[2] for _ in range(3)] == [b"1", CONTENT, b"1"]

    in_world(tell)


def test_http_10_without_host_gets_an_answer_that_ends_with_its_connection():
    async def tell(world):
        host = await world.host(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n")
        client = await world.client()
        client.send(b"GET http://a.test:%d/ HTTP/1.0\r\n\r\n" % host.port)
        assert await client.ended() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"
        assert host.requests == [b"GET / HTTP/1.1\r\nHost: a.test:%d\r\n\r\n" % host.port]

    in_world(tell)


def test_an_answer_that_ends_with_its_connection_does_so_here():
    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\n\r\nall of it", close=True)
        client = await world.client()
        client.send(get("a.test", host.port))
        assert await client.ended() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"

    in_world(tell)


def test_continue_is_ours_to_say():
    async def tell(world):
        host = await world.host()
        client = await world.client()
        head, _, body = delivery("a.test", host.port, fields=b"Expect: 100-continue\r\n").partition(
            b"\r\n\r\n"
        )
        client.send(head + b"\r\n\r\n")
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(body)
        assert (await client.answer())[1] == 200
        assert b"Expect" not in host.requests[0]

    in_world(tell)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"220 mail.example ESMTP\r\n\r\n", "origin_broken"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "origin_broken"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", "origin_broken"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "origin_closed"),
    ],
)
def test_an_answer_that_is_none_is_told_and_the_connection_lives_on(answer, reason):
    async def tell(world):
        host, other = await world.host(answer, close=True), await world.host()
        client = await world.client()
        client.send(get("a.test", host.port))
        assert (await client.answer())[:2] == (reason, 502)
        client.send(get("b.test", other.port))
        assert (await client.answer())[1] == 200

    in_world(tell)


def test_an_answer_that_breaks_off_breaks_off_here():
    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", close=True)
        client = await world.client()
        client.send(get("a.test", host.port))
        assert (await client.ended()).endswith(b"abc")

    in_world(tell)


@pytest.mark.parametrize(
    ("request_bytes", "reason", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "bad_target", 400),
        (b"CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", "bad_target", 400),
        (b"GET http://a.test/ HTTP/2.0\r\n\r\n", "version_unknown", 505),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: " + b"x" * 70_000, "head_too_large", 431),
        (b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\n\n", "bad_field", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "bad_request_line", 400),
    ],
)
def test_what_is_no_request_of_a_proxys_is_told_so_and_the_connection_ends(request_bytes, reason, status):
    async def tell(world):
        client = await world.client()
        client.send(request_bytes)
        told = await client.answer()
        assert told[:2] == (reason, status)
        assert parsed(told[2])["errcode"].startswith("M_")
        assert await client.ended() == b""
        assert world.looked_up.total() == 0

    in_world(tell)


def test_half_a_head_ends_at_its_deadline():
    async def tell(world):
        client = await world.client()
        client.send(b"GET http://a.test/ HT")
        await until(lambda: world.ours(client)._kept)
        await world.later(31)
        assert (await client.answer())[:2] == ("head_timeout", 408)

    in_world(tell)


def test_idle_connections_and_tunnels_end():
    async def tell(world):
        host = await world.host()
        idle = await world.client()
        tunnel, _ = await world.connect("a.test", host.port)
        await world.later(301)
        assert await idle.ended() == b""
        assert world.egress.statistics().connections["tunnel"] == 1
        await world.later(601)
        assert await tunnel.ended() == b""

    in_world(tell)


def test_a_kept_connection_that_the_host_closed_is_not_used_again():
    async def tell(world):
        host = await world.host()
        assert (await world.deliver(host))[1] == 200
        for writer in list(host.open):
            writer.close()
        await until(lambda: world.egress.kept.number == 0)
        assert (await world.deliver(host))[1] == 200
        assert host.accepted == 2

    in_world(tell)


def test_kept_connections_end_after_a_while_and_with_other_settings():
    async def tell(world):
        host = await world.host()
        await world.deliver(host)
        await world.later(16)
        assert world.egress.kept.number == 0
        await world.deliver(host)
        world.egress.reload(world.egress.settings)
        assert world.egress.kept.number == 0

    in_world(tell)


# Back-pressure.


def buffered(world):
    """Bytes that wait in the way out for somebody to take them."""
    connections = list(world.egress.connections)
    sides = [one.transport for one in connections] + [
        one.tunnel.far.transport for one in connections if one.tunnel
    ]
    return sum(
        side.get_write_buffer_size() for side in [*sides, *(one.transport for one in world.egress.kept.sweep)]
    )


@pytest.mark.slow
def test_small_answers_that_are_not_read_do_not_pile_up():
    async def tell(world):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n" + bytes(30_000)
        host = await world.host(answer)
        client = await world.client()
        client.writer.transport.pause_reading()
        client.send(get("a.test", host.port) * 500)
        await until(lambda: world.ours(client).full)
        begun = len(host.requests)
        await turns(500)
        assert len(host.requests) == begun < 400
        assert buffered(world) < 512 * 1024
        client.writer.transport.resume_reading()
        async with asyncio.timeout(10):
            assert await client.reader.readexactly(500 * len(answer)) == answer * 500

    in_world(tell)


def test_an_answer_before_the_whole_request_is_the_last_of_both_connections():
    async def tell(world):
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = await world.client()
        place = server.sockets[0].getsockname()[1]
        client.send(
            b"POST http://a.test:%d/ HTTP/1.1\r\nHost: a.test:%d\r\nContent-Length: 9\r\n\r\nhalf"
            % (place, place)
        )
        answer = await client.until(CONTENT)
        assert b"\r\nConnection: close\r\n" in answer
        assert await client.ended() == b""
        assert world.egress.kept.number == 0
        server.close()

    in_world(tell)


@pytest.mark.slow
@pytest.mark.parametrize("through", ["plain", "tunnel"])
def test_a_homeserver_that_does_not_read_pauses_the_host(through):
    size = 32 * 1024 * 1024

    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        if through == "plain":
            client = await world.client()
            client.send(get("a.test", host.port))
        else:
            client, _ = await world.connect("a.test", host.port)
            client.send(b"GET / HTTP/1.1\r\n\r\n")
        client.writer.transport.pause_reading()
        await until(lambda: world.ours(client).full)
        await turns(500)
        assert buffered(world) < 512 * 1024
        client.writer.transport.resume_reading()
        await client.until(b"\r\n\r\n")
        async with asyncio.timeout(10):
            assert await client.reader.readexactly(size) == bytes(size)

    in_world(tell)


@pytest.mark.slow
@pytest.mark.parametrize("through", ["plain", "tunnel"])
def test_a_host_that_does_not_read_pauses_the_homeserver(through):
    size = 32 * 1024 * 1024

    async def tell(world):
        got = asyncio.Event()

        async def serve(reader, writer):
            await got.wait()
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(size)
            writer.write(OK)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        head = b"POST %s/ HTTP/1.1\r\nHost: a.test:%d\r\nContent-Length: %d\r\n\r\n"
        if through == "plain":
            client = await world.client()
            client.send(head % (b"http://a.test:%d" % port, port, size))
        else:
            client, _ = await world.connect("a.test", port)
            client.send(head % (b"", port, size))
        client.send(bytes(size))
        ours = world.ours(client)
        await until(lambda: ours._paused or (ours.tunnel and ours.tunnel.far.full))
        await turns(500)
        assert buffered(world) < 512 * 1024
        got.set()
        assert (await client.answer())[1] == 200
        server.close()

    in_world(tell)


@pytest.mark.slow
def test_no_further_request_is_begun_for_a_homeserver_that_does_not_read():
    size = 4 * 1024 * 1024

    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        client = await world.client()
        client.writer.transport.pause_reading()
        client.send(get("a.test", host.port) * 20)
        await until(lambda: world.ours(client).full)
        await turns(500)
        assert len(host.requests) <= 3
        assert buffered(world) < 512 * 1024
        client.writer.transport.resume_reading()
        for _ in range(20):
            await client.until(b"\r\n\r\n")
            await client.reader.readexactly(size)

    in_world(tell)


def test_a_host_that_speaks_first_is_paused_by_a_homeserver_that_does_not_read():
    class SpeaksFirst(asyncio.Protocol):
        def connection_made(self, transport):
            transport.write(bytes(32 * 1024 * 1024))

    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n" + bytes(16_000))
        first = await asyncio.get_running_loop().create_server(SpeaksFirst, "127.0.0.1", 0)
        client = await world.client()
        client.writer.transport.pause_reading()
        await until(lambda: len(world.egress.connections))
        ours = world.ours(client)
        ours.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        while not ours.transport.get_write_buffer_size():
            had = len(host.requests)
            client.send(get("a.test", host.port))
            await until(lambda had=had: len(host.requests) > had and ours.state is ConnectionState.HEAD)
        with contextlib.closing(first):
            client.send(b"CONNECT a.test:%d HTTP/1.0\r\n\r\n" % first.sockets[0].getsockname()[1])
            await until(lambda: ours.full)
            await turns(500)
            assert buffered(world) < 512 * 1024

    in_world(tell)


def test_both_directions_of_a_tunnel_end_on_their_own():
    async def tell(world):
        async def serve(reader, writer):
            data = await reader.read()
            writer.write(b"after your end: " + data)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client, _ = await world.connect("a.test", server.sockets[0].getsockname()[1])
        client.send(b"all I have")
        client.writer.write_eof()
        assert await client.ended() == b"after your end: all I have"
        await until(lambda: not len(world.egress.connections))
        server.close()

    in_world(tell)


def test_bytes_of_a_tunnel_that_come_with_its_connect_pass():
    async def tell(world):
        host = await world.host()
        client = await world.client()
        client.send(b"CONNECT a.test:%d HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.1\r\n\r\n" % host.port)
        assert await client.until(CONTENT) == b"HTTP/1.1 200 Connection established\r\n\r\n" + OK

    in_world(tell)


# What a notification did not name stays out of `rejected`.

FOREIGN = b'{"rejected":["pk1","pk9"]}'
KEPT = b'{"rejected":["pk1"]}'


def answered(body, fields=b""):
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (fields, len(body), body)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (answered(FOREIGN), answered(KEPT)),
        (
            answered(FOREIGN, b"content-encoding: identity\r\n"),
            answered(KEPT, b"content-encoding: identity\r\n"),
        ),
        (
            CHUNKED + b'8\r\n{"reject\r\n12\r\ned":["pk1","pk9"]}\r\n0\r\n\r\n',
            CHUNKED + b"14\r\n" + KEPT + b"\r\n0\r\n\r\n",
        ),
        (answered(KEPT + b" "), answered(KEPT + b" ")),
        (CHUNKED + b"3\r\nnot\r\n0\r\n\r\n", CHUNKED + b"3\r\nnot\r\n0\r\n\r\n"),
        (answered(gzip.compress(FOREIGN), b"Content-Encoding: gzip\r\n"), None),
        (answered(b'{"x":"' + b"x" * 70_000 + b'","rejected":["pk9"]}'), None),
    ],
)
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_rejected_keeps_what_the_notification_named(answer, wanted, framing):
    async def tell(world):
        host = await world.host(answer)
        client = await world.client()
        request = delivery("a.test", host.port)
        if framing == "chunked":
            request = request.replace(
                b"Content-Length: %d" % len(NOTIFICATION), b"Transfer-Encoding: chunked"
            )
            request = request.replace(
                NOTIFICATION, b"%x\r\n%s\r\n0\r\n\r\n" % (len(NOTIFICATION), NOTIFICATION)
            )
        client.send(request + get("a.test", host.port))
        told = wanted or answer
        async with asyncio.timeout(5):
            assert await client.reader.readexactly(len(told)) == told
            assert await client.reader.readexactly(len(answer)) == answer, (
                "what is no delivery is nobody's to change"
            )

    in_world(tell)
