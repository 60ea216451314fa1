import asyncio
import dataclasses
import json
import socket

import picture_support
import pytest

from proxy.admin.server import OperatorListeners

SNAPSHOT = dataclasses.replace(picture_support.SNAPSHOT, open_descriptors=3)


class World:
    """What the listeners look at."""

    def __init__(self):
        self.snapshot = SNAPSHOT
        self.answers = True

    def look(self):
        if self.snapshot is None:
            raise RuntimeError("s3cret")
        return self.snapshot

    async def homeserver_answers(self):
        return self.answers


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


def with_listeners(dialogue, admin="127.0.0.1:0", metrics="127.0.0.1:0"):
    async def run():
        world = World()
        listeners = OperatorListeners(admin, metrics, world.look, world.homeserver_answers)
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

        world.answers = False
        assert (await request(at, "GET /readyz", HOST))[::2] == (503, "the homeserver does not answer\n")
        world.answers = True
        world.snapshot = dataclasses.replace(SNAPSHOT, stopping=True)
        assert (await request(at, "GET /readyz", HOST))[::2] == (503, "stopping\n")
        assert (await request(at, "GET /healthz", HOST))[0] == 200

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
        world.snapshot = None
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
        ([HOST, "Origin: http://127.0.0.1:9402"], 403),
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
