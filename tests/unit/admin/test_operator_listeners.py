import asyncio
import dataclasses
import json
import socket
from typing import NamedTuple

import picture_support
import pytest

from proxy.admin.connections import Limits
from proxy.admin.explain import Asked, Finding
from proxy.admin.history import History
from proxy.admin.server import OperatorListeners
from proxy.admin.settings import AdminSettings, MetricsSettings
from proxy.observability.status import status_document

SNAPSHOT = dataclasses.replace(picture_support.SNAPSHOT, open_descriptors=3)


class Reloaded(NamedTuple):
    changed: tuple = ("mode",)
    needs_restart: tuple = ()
    mistakes: tuple = ()


class World:
    """What the listeners look at, in the place of `Views`."""

    def __init__(self):
        self.now = SNAPSHOT
        self.why_not = None
        self.answering = None
        self.not_serving = None
        self.padding = ""
        self.asked = []
        self.reloaded = Reloaded()
        self.history = History()

    def snapshot(self):
        if self.now is None:
            raise RuntimeError("s3cret")
        return self.now

    def status(self):
        return status_document(self.snapshot())

    def flows(self, by, top):
        self.asked.append((by, top))
        return []

    def explain(self, asked):
        self.asked.append(asked)
        return [Finding("class", "requests", "it is so")]

    def reload(self):
        return self.reloaded

    def picture(self):
        return {"status": self.status(), "padding": self.padding}

    def sample(self):
        pass

    async def why_not_ready(self):
        if self.answering is not None:
            await self.answering.wait()
        return self.why_not


async def request(address, line, *fields):
    if address.startswith("unix:"):
        reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
    else:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    head = "".join(f"{field}\r\n" for field in (*fields, "Connection: close"))
    writer.write(f"{line} HTTP/1.1\r\n{head}\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


def with_listeners(dialogue, admin="127.0.0.1:0", metrics="127.0.0.1:0", token=None, limits=None):
    async def run():
        world = World()
        listeners = OperatorListeners(
            AdminSettings(listen=admin, token=token),
            MetricsSettings(listen=metrics),
            world,
            world.why_not_ready,
            lambda: world.not_serving,
            limits or Limits(),
        )
        await listeners.start()
        try:
            await dialogue(listeners, world)
        finally:
            await listeners.stop()
            await listeners.stop()

    asyncio.run(run())


HOST = "Host: 127.0.0.1:9402"


def test_health_readiness_and_metrics_are_told():
    async def dialogue(listeners, world):
        at = listeners.metrics_address
        assert (await request(at, "GET /healthz", "Host: anything"))[::2] == (200, "ok\n")
        assert (await request(at, "GET /readyz", HOST))[0] == 200
        status, head, body = await request(at, "GET /metrics", HOST)
        assert status == 200
        assert "content-type: text/plain; version=" in head
        assert "fairgate_open_descriptors 3.0" in body
        figures = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
        assert float(figures["process_resident_memory_bytes"]) > 1e6
        assert float(figures["process_cpu_seconds_total"]) > 0
        names = [line.split()[2] for line in body.splitlines() if line.startswith("# TYPE")]
        assert len(names) == len(set(names))

        world.why_not = "the homeserver does not answer"
        assert (await request(at, "GET /readyz", HOST))[::2] == (503, "the homeserver does not answer\n")
        world.why_not = None
        world.now = dataclasses.replace(SNAPSHOT, stopping=True)
        assert (await request(at, "GET /readyz", HOST))[::2] == (503, "stopping\n")
        assert (await request(at, "GET /healthz", HOST))[0] == 200

    with_listeners(dialogue)


def test_while_the_homeserver_does_not_answer_clients_are_still_sent_here():
    async def dialogue(listeners, world):
        at = listeners.metrics_address
        world.answers = False
        assert (await request(at, "GET /servez", HOST))[::2] == (200, "ok\n")
        world.not_serving = "stopping"
        assert (await request(at, "GET /servez", HOST))[::2] == (503, "stopping\n")

    with_listeners(dialogue)


def test_status_is_on_the_admin_listener_only():
    async def dialogue(listeners, _):
        status, head, body = await request(listeners.admin_address, "GET /v1/status", HOST)
        assert status == 200
        assert "cache-control: no-store" in head
        assert json.loads(body)["build"] == {"version": "0.1.0"}
        assert (await request(listeners.metrics_address, "GET /v1/status", HOST))[0] == 404
        assert (await request(listeners.admin_address, "GET /metrics", HOST))[0] == 404

    with_listeners(dialogue)


def test_errors_are_json_and_show_nothing_of_a_fault():
    async def dialogue(listeners, world):
        status, _, body = await request(listeners.metrics_address, "GET /nothing", HOST)
        assert (status, json.loads(body)) == (404, {"error": "not_found", "message": "Not Found"})
        status, head, body = await request(listeners.metrics_address, "POST /healthz", HOST)
        assert (status, json.loads(body)["error"]) == (405, "method_not_allowed")
        assert "allow: get,head" in head
        world.now = None
        status, _, body = await request(listeners.admin_address, "GET /v1/status", HOST)
        assert (status, json.loads(body)["error"]) == (500, "failed")
        assert "s3cret" not in body
        assert (await request(listeners.metrics_address, "GET /healthz", HOST))[0] == 200

    with_listeners(dialogue)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (["Host: 127.0.0.1"], 200),
        (["Host: 10.1.2.3:9402"], 200),
        (["Host: [::1]:9402"], 200),
        (["Host: LOCALHOST:9402"], 200),
        (["Host: evil.example"], 403),
        (["Host: 127.0.0.1.evil.example:9402"], 403),
        (["Host: localhost.evil.example"], 403),
        (["Host: "], 403),
        ([], 400),
        ([HOST, "Origin: http://127.0.0.1:9402"], 200),
        ([HOST, "Origin: http://127.0.0.1:9403"], 403),
        ([HOST, "Origin: https://127.0.0.1:9402"], 403),
        ([HOST, "Origin: http://127.0.0.1:9402", "Origin: null"], 403),
        ([HOST, "Origin: null"], 403),
        ([HOST, "Sec-Fetch-Site: cross-site"], 403),
        ([HOST, "Sec-Fetch-Site: same-site"], 403),
        ([HOST, "Sec-Fetch-Site: none"], 200),
    ],
)
def test_the_admin_listener_answers_no_web_page_of_another_site(fields, status):
    async def dialogue(listeners, _):
        assert (await request(listeners.admin_address, "GET /v1/status", *fields))[0] == status

    with_listeners(dialogue)


def test_two_hosts_are_never_answered_with_the_status():
    async def dialogue(listeners, _):
        status, _, body = await request(listeners.admin_address, "GET /v1/status", HOST, "Host: evil.example")
        assert status in (400, 403)
        assert "build" not in body

    with_listeners(dialogue)


def test_the_configured_name_is_a_host_of_ours():
    async def dialogue(listeners, _):
        port = listeners.admin_address.rpartition(":")[2]
        assert listeners.admin_address == f"localhost:{port}"
        assert port != "0"
        assert (await request(f"127.0.0.1:{port}", "GET /v1/status", f"Host: localhost:{port}"))[0] == 200

    with_listeners(dialogue, admin="localhost:0")


def test_a_unix_socket_serves_and_is_removed_at_the_end(tmp_path):
    path = tmp_path / "admin.sock"

    async def dialogue(listeners, _):
        assert listeners.admin_address == f"unix:{path}"
        assert (await request(listeners.admin_address, "GET /v1/status", "Host: whatever"))[0] == 200
        assert path.is_socket()

    with_listeners(dialogue, admin=f"unix:{path}")
    assert not path.exists()


def test_a_taken_port_is_an_os_error_and_nothing_stays_open(tmp_path):
    path = tmp_path / "admin.sock"

    async def dialogue(_listeners, _world):
        raise AssertionError("it started")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="address already in use"):
            with_listeners(dialogue, admin=f"unix:{path}", metrics=f"127.0.0.1:{port}")
    assert not path.exists()


def test_flows_are_asked_for_by_one_of_a_few_orders():
    async def dialogue(listeners, world):
        at = listeners.admin_address
        assert (await request(at, "GET /v1/flows", HOST))[::2] == (
            200,
            '{"by": "worker_seconds", "flows": []}',
        )
        assert (await request(at, "GET /v1/flows?by=refused&top=7", HOST))[0] == 200
        assert world.asked == [("worker_seconds", 20), ("refused", 7)]
        for query in ("by=name", "top=0", "top=-1", "top=x", "top=1001", "top=9999999999"):
            status, _, body = await request(at, f"GET /v1/flows?{query}", HOST)
            assert (status, json.loads(body)["error"]) == (400, "bad_request"), query

    with_listeners(dialogue)


def test_explain_takes_a_request_apart_and_shows_no_token():
    async def dialogue(listeners, world):
        query = (
            "method=put&target=/a%3Faccess_token=s3cret&account=@a:b&header=User-Agent:+axon/1&header=A:+b"
        )
        status, _, body = await request(listeners.admin_address, f"GET /v1/explain?{query}", HOST)
        assert status == 200
        fields = {"user-agent": "axon/1", "a": "b"}
        assert world.asked == [Asked("PUT", "/a?access_token=s3cret", "@a:b", fields)]
        assert json.loads(body)["findings"] == [{"topic": "class", "says": "requests", "why": "it is so"}]
        assert "s3cret" not in body
        for query in ("target=a", "", "target=/&header=nonsense"):
            assert (await request(listeners.admin_address, f"GET /v1/explain?{query}", HOST))[0] == 400

    with_listeners(dialogue)


def test_a_reload_says_what_changed_or_what_is_wrong():
    async def dialogue(listeners, world):
        at = listeners.admin_address
        status, _, body = await request(at, "POST /v1/reload", HOST, "Content-Length: 0")
        assert status == 200
        assert json.loads(body) == {"changed": ["mode"], "needs_restart": [], "mistakes": []}
        world.reloaded = Reloaded((), (), ("mode: what?",))
        assert (await request(at, "POST /v1/reload", HOST, "Content-Length: 0"))[0] == 422
        assert (await request(at, "GET /v1/reload", HOST))[0] == 405
        assert (await request(at, "POST /v1/reload", HOST, "Content-Length: 0", "Origin: http://a"))[0] == 403

    with_listeners(dialogue)


TOKEN = "correct-horse-battery"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([], 401),
        (["Authorization: Bearer wrong-horse-battery"], 401),
        (["Authorization: Basic correct-horse-battery"], 401),
        ([f"Authorization: Bearer {TOKEN}x"], 401),
        ([f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer {TOKEN}"], 401),
        (["Authorization: Bearer \xff"], 401),
        ([f"Authorization: Bearer {TOKEN}"], 200),
        ([f"authorization: bearer  {TOKEN}"], 200),
    ],
)
def test_where_a_token_is_set_only_who_has_it_sees_anything(fields, status):
    async def dialogue(listeners, _):
        at = listeners.admin_address
        for path in ("/v1/status", "/v1/flows", "/v1/explain?target=/"):
            seen, head, body = await request(at, f"GET {path}", HOST, *fields)
            assert seen == status
            assert ("www-authenticate: bearer" in head) == (status == 401)
            assert TOKEN not in body
        assert (await request(at, "GET /", HOST))[
            0
        ] == 200  # the page has nothing in it, and asks for the token
        assert (await request(listeners.metrics_address, "GET /metrics", HOST))[0] == 200
        listeners.configure(AdminSettings())
        assert (await request(at, "GET /v1/status", HOST))[0] == 200

    with_listeners(dialogue, token=TOKEN)


def test_a_token_must_be_long_and_is_not_shown():
    with pytest.raises(ValueError, match="at least 16 characters"):
        AdminSettings(token="short")
    assert TOKEN not in repr(AdminSettings(token=TOKEN))


async def stream(address):
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /v1/events HTTP/1.1\r\n{HOST}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    return head, reader, writer


async def event(reader):
    text = (await reader.readuntil(b"\n\n")).decode()
    name, data = text[text.index("event: ") :].split("\n")[:2]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_events_begin_with_the_history_and_go_on_with_pictures_for_a_bounded_number_of_pages():
    async def dialogue(listeners, _):
        pages = [await stream(listeners.admin_address) for _ in range(16)]
        head, reader, _ = pages[0]
        assert "content-type: text/event-stream" in head
        name, history = await event(reader)
        assert (name, history["columns"][0]) == ("history", "at")
        name, picture = await event(reader)
        assert (name, picture["status"]["build"]) == ("picture", {"version": "0.1.0"})
        assert (await request(listeners.admin_address, "GET /v1/events", HOST))[0] == 503
        for _, _, writer in pages:
            writer.transport.abort()

    with_listeners(dialogue)


def test_the_page_comes_from_the_package_alone():
    async def dialogue(listeners, _):
        for path, kind in (("/", "html"), ("/page.css", "css"), ("/page.js", "javascript")):
            status, head, body = await request(listeners.admin_address, f"GET {path}", HOST)
            assert (status, f"content-type: text/{kind}" in head) == (200, True)
            assert "content-security-policy: default-src 'none'" in head
            assert "http://" not in body.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in body

    with_listeners(dialogue)
