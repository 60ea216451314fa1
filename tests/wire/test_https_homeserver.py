"""A homeserver that is reached by https."""

import asyncio
import ssl

from harness import OK, Line
from structlog.testing import capture_logs
from tls_support import make_certificate

import proxy.app
from proxy.app import Application
from proxy.config.settings import Settings

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + b"y" * 300_000


class Homeserver(Line):
    """Answers each request it has whole."""

    requests: list[bytes]

    def data_received(self, data):
        super().data_received(data)
        for request in (GET, POST):
            body = request.partition(b"\r\n\r\n")[2]
            end = self.received.find(b"\r\n\r\n") + 4
            if self.received.startswith(request[:5]) and len(self.received) >= end + len(body):
                self.requests.append(bytes(self.received[: end + len(body)]))
                del self.received[: end + len(body)]
                self.transport.write(OK)
                return


def run(loop, monkeypatch, pair, *, trusted=None):
    """Ask twice through a Fairgate before an https homeserver; give what it got and what the client did."""
    if trusted is not None:
        monkeypatch.setenv("SSL_CERT_FILE", trusted["certificate"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair["certificate"], pair["key"])
    requests = []

    def homeserver():
        line = Homeserver()
        line.requests = requests
        return line

    async def tell():
        running = asyncio.get_running_loop()
        server = await running.create_server(homeserver, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setattr(proxy.app, "_TURN_S", 0.01)
        places = {key: {"listen": "127.0.0.1:0"} for key in ("admin", "metrics")}
        homeserver_settings = {"url": f"https://localhost:{port}", "profile": "generic"}
        settings = {"listen": [{"address": "127.0.0.1:0"}], "homeserver": homeserver_settings, **places}
        application = Application(Settings.model_validate(settings))
        await application.start()
        _, client = await running.create_connection(
            Line, "127.0.0.1", int(application.listener.addresses[0].rpartition(":")[2])
        )
        try:
            client.transport.write(GET)
            await client.until(lambda: len(client.received) >= len(OK) or client.ended is not None)
            if trusted is not None:
                client.transport.write(POST)
                await client.until(lambda: len(client.received) >= 2 * len(OK) or client.ended is not None)
            return bytes(client.received)
        finally:
            client.transport.abort()
            at_once = asyncio.Event()
            at_once.set()
            await application.stop(at_once)
            server.close()
            await asyncio.sleep(0)

    received = loop.run_until_complete(tell())
    return requests, received


def test_requests_and_bodies_go_through_tls_to_a_homeserver_whose_certificate_is_trusted(
    loop, tmp_path, monkeypatch
):
    pair = make_certificate(tmp_path, "localhost", "localhost")
    requests, received = run(loop, monkeypatch, pair, trusted=pair)
    assert received == OK + OK
    assert [request[:6] for request in requests] == [b"GET /x", b"POST /"]
    assert requests[1].endswith(b"y" * 300_000)


def test_a_private_authority_is_trusted_that_does_not_say_what_its_key_is_for(loop, tmp_path, monkeypatch):
    authority = make_certificate(tmp_path, "authority")
    pair = make_certificate(tmp_path, "localhost", "localhost", issuer=authority)
    assert run(loop, monkeypatch, pair, trusted=authority)[1] == OK + OK


def test_an_intermediate_authority_can_be_trusted_alone(loop, tmp_path, monkeypatch):
    root = make_certificate(tmp_path, "root")
    intermediate = make_certificate(tmp_path, "intermediate", issuer=root)
    pair = make_certificate(tmp_path, "localhost", "localhost", issuer=intermediate)
    assert run(loop, monkeypatch, pair, trusted=intermediate)[1] == OK + OK


def test_a_homeserver_whose_certificate_is_not_trusted_gets_nothing(loop, tmp_path, monkeypatch):
    stranger = make_certificate(tmp_path, "stranger")
    with capture_logs() as lines:
        requests, received = run(
            loop, monkeypatch, make_certificate(tmp_path, "localhost", "localhost", issuer=stranger)
        )
    assert requests == []
    assert received.startswith(b"HTTP/1.1 502 ")
    assert b"Fairgate-Reason: upstream_unreachable" in received
    (told,) = (line for line in lines if line["event"] == "homeserver cannot be reached")
    assert "certificate verify failed" in told["cause"]
