"""TLS on real sockets: the same dialogues as without, deadlines, names, handshakes in turn, certificates that change."""

import asyncio
import contextlib
import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import harness
import pytest
import requests_passed
import requests_refused
import responses
from harness import BYTES, OK, WHOLE, Answer, Cut, Line, until
from tls_support import TlsLine, TlsWorld, make_certificate, trusting

from proxy.downstream import handshakes
from proxy.downstream.settings import TlsSettings
from proxy.downstream.tls_context import CertificateError, TlsContexts

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
SHORT_S = 0.15
VIA = b"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n"
DIALOGUES = [*requests_passed.DIALOGUES, *requests_refused.DIALOGUES, *responses.DIALOGUES]

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")


@pytest.fixture(scope="package")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return [
        make_certificate(folder, "a", "a.example.org"),
        make_certificate(folder, "b", "b.example.org", "*.c.example.org"),
    ]


@pytest.fixture(scope="package")
def tls_world(loop, pairs):
    world = TlsWorld(pairs[:1])
    loop.run_until_complete(world.start())
    yield world
    loop.run_until_complete(world.stop())


@pytest.fixture
def in_a_tls_world(loop, pairs):
    def run(tell, settings=None, **more):
        async def whole():
            world = TlsWorld(more.pop("pairs", pairs), settings, **more)
            await world.start()
            try:
                async with asyncio.timeout(30):
                    with contextlib.ExitStack() as world.ends:
                        await tell(world)
                await world.calm()
                assert world.faults == []
            finally:
                await world.stop()

        loop.run_until_complete(whole())

    return run


def connections(**settings):
    return {"connections": settings}


# The same as without.


@pytest.mark.parametrize("dialogue", [pytest.param(each, id=each.name) for each in DIALOGUES])
def test_the_dialogue_goes_as_it_does_without_tls(tls_world, loop, dialogue, monkeypatch):
    monkeypatch.setattr(harness, "_VIA", VIA)
    for cut in (WHOLE, Cut("at random, once", 1)):
        loop.run_until_complete(tls_world.play(dialogue, cut))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_served_one_after_the_other(in_a_tls_world, pairs, version):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 5)
        line = await world.connect(context=trusting(pairs[0], version=version))
        for number in range(5):
            await line.send(GET)
            await line.until_received(OK * (number + 1))
        assert line.tls.selected_alpn_protocol() == "http/1.1"
        assert VIA in world.homeserver.script.requests[0].data
        line.transport.close()

    in_a_tls_world(tell)


def test_a_trusted_proxy_may_say_that_its_client_spoke_without_tls(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK), Answer(OK)))
        line = await world.connect()
        await line.send(GET)
        await line.send(GET[:-2] + b"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n\r\n")
        await line.until_received(OK + OK)
        first, second = (request.data for request in world.homeserver.script.requests)
        assert b"\r\nX-Forwarded-Proto: https\r\n" in first
        assert b"\r\nX-Forwarded-Proto: http\r\n" in second
        line.transport.close()

    in_a_tls_world(tell, {"clients": {"trusted_proxies": ["127.0.0.1"]}})


def test_ciphertext_may_be_cut_anywhere(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),) * 2)
        line = await world.connect()
        await line.send_cut(GET, BYTES)
        await line.send_cut(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n" + b"a" * 900, BYTES)
        await line.until_received(OK + OK)
        line.transport.close()

    in_a_tls_world(tell)


def test_what_connections_send_at_the_same_time_stays_apart(in_a_tls_world, pairs):
    """All of them share OpenSSL's buffers: whatever is left there by one must not reach another."""

    async def ask(world, number):
        line = await world.connect(address=f"127.0.0.{number + 1}")
        cut = Cut("at random", number)
        for turn in range(5):
            answer = b"for %d in %d" % (number, turn) * 300
            request = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer)
            line.received.clear()
            await line.send_cut(request, cut)
            await line.until_received(answer[-14:])
            assert bytes(line.received).endswith(b"\r\n\r\n" + answer)
        line.transport.close()

    async def tell(_):
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        echoing = TlsWorld(pairs, {"homeserver": {"url": f"http://127.0.0.1:{port}"}})
        await echoing.start()
        try:
            await asyncio.gather(*(ask(echoing, number) for number in range(30)))
        finally:
            await echoing.stop()
            server.close()

    async def echo(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                body = await reader.readexactly(size)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (size, body))
        writer.close()

    in_a_tls_world(tell)


@pytest.mark.parametrize("size", [70_000, 3_000_000])
def test_large_answers_come_whole_also_to_a_client_that_pauses(in_a_tls_world, size):
    async def tell(world):
        body = bytes(range(251)) * (size // 251)
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        world.homeserver.begin((Answer(answer), Answer(OK)))
        line = await world.connect()
        line.raw.pause_reading()
        await line.send(GET)
        await until(lambda: not world.homeserver.busy and world.homeserver.script.requests)
        line.raw.resume_reading()
        await line.until(lambda: len(line.received) == len(answer))
        assert bytes(line.received) == answer
        await line.send(GET)
        await line.until_received(OK)
        line.transport.close()

    in_a_tls_world(tell)


@pytest.mark.parametrize("size", [20_000, 900_000])
def test_large_bodies_come_whole_and_what_follows_is_served(in_a_tls_world, size):
    async def tell(world):
        body = bytes(range(251)) * (size // 251)
        world.homeserver.begin((Answer(OK), Answer(OK)))
        line = await world.connect()
        head = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        await line.send(head + body + GET)
        await line.until_received(OK + OK)
        assert world.homeserver.script.requests[0].data.endswith(b"\r\n\r\n" + body)
        line.transport.close()

    in_a_tls_world(tell)


# Names.


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.example.org", 0),
        ("A.Example.ORG", 0),
        ("b.example.org", 1),
        ("any.c.example.org", 1),
        ("c.example.org", 0),
        ("two.labels.c.example.org", 0),
        ("elsewhere.example.org", 0),
        (None, 0),
    ],
)
def test_the_certificate_is_the_one_with_the_clients_name_else_the_first(in_a_tls_world, pairs, name, found):
    wanted = ssl.PEM_cert_to_DER_cert(Path(pairs[found]["certificate"]).read_text())

    async def tell(world):
        context = trusting(*pairs)
        context.check_hostname = False
        line = await world.connect(name=name, context=context)
        assert line.tls.getpeercert(binary_form=True) == wanted
        line.transport.close()

    in_a_tls_world(tell)


def test_a_client_without_the_least_version_is_told_so(in_a_tls_world, pairs):
    async def tell(world):
        line = await world.line(context=trusting(pairs[0], version=ssl.TLSVersion.TLSv1_2))
        await line.until(lambda: line.failure is not None)
        assert line.failure.reason == "TLSV1_ALERT_PROTOCOL_VERSION"
        line.transport.abort()
        assert world.turned_away() == {"handshake": 1}

    in_a_tls_world(tell, minimum_version="1.3")


# Deadlines and ends.


async def raw_line(world, said=b""):
    _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", world.port)
    await line.send(said)
    return line


def hello(context):
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="a.example.org")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("part", [0, 1, 5, 100])
def test_a_client_that_does_not_say_all_of_its_first_word_is_closed(in_a_tls_world, pairs, part):
    async def tell(world):
        line = await raw_line(world, hello(trusting(pairs[0]))[:part])
        assert world.application.listener.states()["hello"] == 1
        assert await line.until_ended() == b""

    in_a_tls_world(tell, connections(tls_hello_seconds=SHORT_S))


def test_a_client_that_does_not_go_on_with_its_handshake_is_closed(in_a_tls_world):
    async def tell(world):
        line = await world.line(silent=True)
        await until(lambda: world.application.listener.states()["handshake"] == 1)
        await line.until_ended()
        assert world.application.listener.statistics().tls.handshakes_open == 0

    in_a_tls_world(tell, connections(tls_handshake_seconds=SHORT_S))


def test_handshakes_and_when_the_first_certificate_expires_are_told(in_a_tls_world, pairs):
    async def tell(world):
        line = await world.line()
        await until(lambda: world.application.listener.statistics().tls.handshakes_done_total == 1)
        line.reset()
        told = world.application.snapshot().listener["tls"]
        trusted = trusting(*pairs).get_ca_certs()
        ends = min(ssl.cert_time_to_seconds(certificate["notAfter"]) for certificate in trusted)
        assert (told["handshakes_begun_total"], told["certificate_expires_at"]) == (1, ends)

    in_a_tls_world(tell)


def test_the_first_byte_has_its_time_again_after_the_handshake(in_a_tls_world):
    async def tell(world):
        line = await world.connect()
        await line.until_ended()
        assert bytes(line.received) == b""

    in_a_tls_world(tell, connections(first_byte_seconds=SHORT_S))


@pytest.mark.parametrize(
    "said", [GET, b"\x16\x03\x01\x00\x00", b"\x15\x03\x01\x00\x02\x02\x28", b"\x16\x03\x01" + b"\x50" * 9]
)
def test_what_is_no_tls_is_closed_at_once(in_a_tls_world, said):
    async def tell(world):
        line = await raw_line(world, said)
        assert await line.until_ended() == b""
        assert world.turned_away() == {"hello": 1}
        assert world.application.listener.statistics().tls.handshakes_begun_total == 0

    in_a_tls_world(tell)


def test_a_hello_that_openssl_refuses_is_answered_with_an_alert(in_a_tls_world):
    async def tell(world):
        line = await raw_line(world, b"\x16\x03\x01\x00\x08\x01\x00\x00\x04abcd")
        assert (await line.until_ended())[:2] == b"\x15\x03"
        assert world.turned_away() == {"handshake": 1}

    in_a_tls_world(tell)


def test_broken_ciphertext_ends_the_connection(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        line.tls.write(GET)
        cipher = bytearray(line.outgoing.read())
        cipher[-1] ^= 1
        line.raw.write(bytes(cipher))
        await line.until_ended()
        assert world.homeserver.script.requests == []

    in_a_tls_world(tell)


@pytest.mark.parametrize("how", ["says so in TLS", "closes in silence", "resets"])
@pytest.mark.parametrize("stage", ["parked", "in service", "with more sent ahead than is kept"])
def test_a_client_that_leaves_is_noticed(in_a_tls_world, stage, how):
    async def tell(world):
        world.homeserver.begin((Answer(OK), Answer(b"", after=b"never")))
        line = await world.connect()
        await line.send(GET)
        await line.until_received(OK)
        if stage != "parked":
            await line.send(GET)
            await until(lambda: len(world.homeserver.lines[0].received) > 0)
        if stage == "with more sent ahead than is kept":
            await line.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n" + b"a" * 50_000)
            await until(lambda: next(iter(world.application.listener.connections)).paused)
        if how == "says so in TLS":
            line.transport.close()
        elif how == "resets":
            line.reset()
        else:
            line.raw.close()
        await until(lambda: not len(world.application.listener.connections))

    in_a_tls_world(tell)


def test_our_end_is_said_in_tls(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await line.send(GET[:-2] + b"Connection: close\r\n\r\n")
        await line.until_ended()
        assert line.received.endswith(b"ok")
        assert line.notified
        line.transport.close()

    in_a_tls_world(tell)


def test_an_answer_that_only_its_end_ends_and_that_breaks_off_is_not_ended_in_tls(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(b"HTTP/1.1 200 OK\r\n\r\nabc", then="reset"),))
        line = await world.connect()
        await line.send(GET)
        await line.until_ended()
        assert not line.notified
        assert line.ended == "reset"

    in_a_tls_world(tell)


def test_a_stop_lets_a_request_in_flight_end(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK, after=b"later"),))
        busy, parked = await world.connect(), await world.connect()
        shaking = await world.line(silent=True)
        await busy.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        await until(lambda: world.application.listener.states()["in_service"] == 1)
        stopping = asyncio.ensure_future(world.stop_application(asyncio.Event()))
        await parked.until_ended()
        await shaking.until_ended()
        await busy.send(b"later")
        await busy.until_ended()
        assert busy.received.endswith(b"ok")
        await stopping

    in_a_tls_world(tell)


# Handshakes in turn.


def test_four_handshakes_of_an_address_are_open_at_once_and_others_are_not_held_up(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        silent = [await world.line(address="127.0.0.2", silent=True) for _ in range(10)]
        statistics = world.application.listener.statistics
        await until(lambda: statistics().tls.handshakes_waiting == 6)
        assert statistics().tls.handshakes_open == 4
        line = await world.connect(address="127.0.0.3")
        await line.send(GET)
        await line.until_received(OK)
        silent[0].reset()
        await until(lambda: statistics().tls.handshakes_waiting == 5)
        for each in (line, *silent):
            each.transport.abort()

    in_a_tls_world(tell)


def test_a_trusted_proxy_may_have_more_of_them(in_a_tls_world):
    async def tell(world):
        silent = [await world.line(address="127.0.0.2", silent=True) for _ in range(10)]
        await until(lambda: world.application.listener.statistics().tls.handshakes_open == 10)
        for line in silent:
            line.transport.abort()

    in_a_tls_world(tell, {"clients": {"trusted_proxies": ["127.0.0.2"]}})


def test_silent_clients_of_many_addresses_give_their_places_up_while_others_wait(in_a_tls_world, monkeypatch):
    monkeypatch.setattr(handshakes, "_PATIENCE_S", SHORT_S)

    async def tell(world):
        silent = [await world.line(address=f"127.0.1.{at % 16 + 1}", silent=True) for at in range(64)]
        statistics = world.application.listener.statistics
        await until(lambda: statistics().tls.handshakes_open == 64)
        line = await world.connect(address="127.0.0.3")
        assert line.shaken
        assert world.turned_away() == {"handshake_place": 1}
        for each in (line, *silent):
            each.transport.abort()

    in_a_tls_world(tell)


def test_a_client_behind_a_proxy_header_has_tls_of_its_own(in_a_tls_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        loop = asyncio.get_running_loop()
        _, plain = await loop.create_connection(Line, "127.0.0.1", world.port)
        await plain.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n")
        line = TlsLine(world.client_context, "a.example.org")
        plain.transport.set_protocol(line)
        line.connection_made(plain.transport)
        await line.until_shaken()
        await line.send(GET)
        await line.until_received(OK)
        request = world.homeserver.script.requests[0].data
        assert b"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n" in request
        line.transport.close()

    in_a_tls_world(tell, {"clients": {"trusted_proxies": ["127.0.0.1"]}}, proxy_protocol=True)


def test_a_proxy_header_and_a_hello_may_come_in_one_piece(in_a_tls_world, pairs):
    async def tell(world):
        line = await raw_line(
            world, b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n" + hello(trusting(pairs[0]))
        )
        await line.until(lambda: len(line.received) > 500)
        assert world.application.listener.statistics().tls.handshakes_open == 1
        line.transport.abort()

    in_a_tls_world(tell, {"clients": {"trusted_proxies": ["127.0.0.1"]}}, proxy_protocol=True)


# Certificates that change.


def swap(folder, version, pair):
    """As Kubernetes mounts a secret: files are links into a folder that is itself a link, and that one is replaced."""
    new = folder / version
    new.mkdir()
    shutil.copy(pair["certificate"], new / "tls.crt")
    shutil.copy(pair["key"], new / "tls.key")
    (folder / "next").symlink_to(version)
    (folder / "next").replace(folder / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (folder / name).exists():
            (folder / name).symlink_to(f"..data/{name}")
    return {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}


def served_with(line):
    return {name for _, name in line.tls.getpeercert()["subjectAltName"]}


def test_new_connections_get_a_changed_certificate_and_old_ones_go_on(in_a_tls_world, pairs, tmp_path):
    async def tell(world):
        world.homeserver.begin((Answer(OK),))
        context = trusting(*pairs)
        context.check_hostname = False
        old = await world.connect(context=context)
        swap(tmp_path, "second", pairs[1])
        world.application.listener.reload_certificates()
        new = await world.connect(context=context)
        assert served_with(old) == {"a.example.org"}
        assert served_with(new) == {"b.example.org", "*.c.example.org"}
        await old.send(GET)
        await old.until_received(OK)
        for line in (old, new):
            line.transport.close()

    in_a_tls_world(tell, pairs=[swap(tmp_path, "first", pairs[0])])


def test_a_pair_that_does_not_fit_changes_nothing_until_it_does(in_a_tls_world, pairs, tmp_path, capsys):
    async def tell(world):
        context = trusting(*pairs)
        context.check_hostname = False
        broken = {"certificate": pairs[1]["certificate"], "key": pairs[0]["key"]}
        swap(tmp_path, "second", broken)
        capsys.readouterr()
        for _ in range(3):
            world.application.listener.reload_certificates()
        assert capsys.readouterr().out.count("does not belong to the certificate") == 1
        line = await world.connect(context=context)
        assert served_with(line) == {"a.example.org"}
        swap(tmp_path, "third", pairs[1])
        world.application.listener.reload_certificates()
        again = await world.connect(context=context)
        assert served_with(again) == {"b.example.org", "*.c.example.org"}
        for each in (line, again):
            each.transport.close()

    in_a_tls_world(tell, pairs=[swap(tmp_path, "first", pairs[0])])


def test_changed_files_are_noticed_by_themselves(in_a_tls_world, pairs, tmp_path):
    async def tell(world):
        swap(tmp_path, "second", pairs[1])
        world.application.listener._certificates_due_at = 0.0
        contexts = world.application.listener._entrances[0].contexts
        await until(lambda: contexts.certificates[0].names[0] == "b.example.org")

    in_a_tls_world(tell, pairs=[swap(tmp_path, "first", pairs[0])])


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda pair: pair | {"certificate": "/nowhere/a.crt"}, "/nowhere/a.crt: No such file"),
        (lambda pair: pair | {"key": "/nowhere/a.key"}, "/nowhere/a.key: No such file"),
        (lambda pair: pair | {"certificate": pair["key"]}, "a.key: holds no certificate in PEM"),
        (lambda pair: pair | {"key": pair["certificate"]}, "a.crt: holds no private key"),
        (
            lambda pair: pair | {"key": pair["key"].replace("a.key", "b.key")},
            "b.key: does not belong to the certificate in",
        ),
    ],
)
def test_what_cannot_be_used_is_said_with_its_file(pairs, break_it, told):
    with pytest.raises(CertificateError, match=told):
        TlsContexts(TlsSettings(certificates=(break_it(pairs[0]),)))


def test_an_encrypted_key_is_refused_instead_of_asked_for(pairs, tmp_path):
    key = tmp_path / "locked.key"
    command = [
        "openssl",
        "ec",
        "-in",
        pairs[0]["key"],
        "-aes256",
        "-passout",
        "pass:secret",
        "-out",
        str(key),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    with pytest.raises(CertificateError, match=r"locked\.key: is encrypted"):
        TlsContexts(TlsSettings(certificates=(pairs[0] | {"key": str(key)},)))


# Clients that others wrote.


@pytest.mark.slow
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssls_own_client_is_served_and_may_not_negotiate_anew(in_a_tls_world, pairs, version):
    async def tell(world):
        world.homeserver.begin((Answer(OK), Answer(OK)))
        client = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-connect", f"127.0.0.1:{world.port}", version, "-servername", "a.example.org",
            "-CAfile", pairs[0]["certificate"], "-verify_return_error", "-alpn", "http/1.1", "-ign_eof",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        client.stdin.write(GET[:-2] + b"Connection: close\r\n\r\n")
        await client.stdin.drain()
        told, _ = await client.communicate()
        assert b"ALPN protocol: http/1.1" in told
        assert b"Verify return code: 0 (ok)" in told
        assert b"Secure Renegotiation IS supported" in told or version == "-tls1_3"
        assert b"HTTP/1.1 200 OK" in told

    in_a_tls_world(tell)


@pytest.mark.slow
def test_a_client_that_negotiates_anew_is_not_followed(in_a_tls_world):
    async def tell(world):
        client = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-connect", f"127.0.0.1:{world.port}", "-tls1_2",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        await until(lambda: world.application.listener.statistics().tls.handshakes_done_total == 1)
        client.stdin.write(b"R\n")
        told, _ = await client.communicate()
        assert b"no renegotiation" in told
        assert world.application.listener.statistics().tls.handshakes_begun_total == 1

    in_a_tls_world(tell)


# What a parked connection costs.

PARKED = """
import socket, ssl, sys
port, count, held = int(sys.argv[1]), int(sys.argv[2]), []
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
for number in range(2 * count):
    client = socket.socket()
    client.bind((f"127.0.3.{number % 100 + 1}", 0))
    client.connect(("127.0.0.1", port))
    client = context.wrap_socket(client)
    client.sendall(b"POST /x HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 20000\\r\\n\\r\\n" + b"a" * 20000)
    left = 50_000
    while left > 0:
        left -= len(client.recv(65536))
    held.append(client)
    if number + 1 in (count, 2 * count):
        print("here", flush=True)
        sys.stdin.readline()
"""


@pytest.mark.slow
def test_a_parked_connection_costs_at_most_20_kib_whatever_passed_through_it(in_a_tls_world):
    def pss_bytes():
        found = re.search(r"^Pss:\s+(\d+)", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) * 1024

    async def tell(world):
        count = 500
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 50_000 + b"b" * 50_000
        world.homeserver.begin((Answer(answer),) * 2 * count)
        clients = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PARKED, str(world.port), str(count),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert await clients.stdout.readline() == b"here\n"
            world.homeserver.script.requests.clear()
            before = pss_bytes()
            clients.stdin.write(b"\n")
            assert await clients.stdout.readline() == b"here\n"
            world.homeserver.script.requests.clear()
            assert world.application.listener.states()["parked"] == 2 * count
            assert (pss_bytes() - before) / count <= 20 * 1024
        finally:
            clients.kill()
            await clients.wait()

    in_a_tls_world(tell)
