import contextlib
import http.client
import json
import os
import subprocess
import threading
import time

import pytest
from conftest import ask
from e2e_support import MIB, ROOT, wait_for

from tools.parts import find_program
from tools.processes import free_port

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
FAIRGATE = "127.0.0.1:8010"
NGINX = """
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi;
    {told}
}}
"""
HAPROXY = """
global
    maxconn 256
{told}
"""


def told(language, listens, port, upstream):
    """The configuration that operators are told, at addresses of this test and without TLS."""
    text = OPERATIONS.partition(f"```{language}\n")[2].partition("```")[0]
    assert text.count(FAIRGATE) == text.count(listens) == 1
    return text.replace(FAIRGATE, f"127.0.0.1:{upstream}").replace(
        listens, f"{listens.split()[0]} 127.0.0.1:{port}"
    )


def nginx(folder, port, upstream):
    config = folder / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    text = told("nginx", "listen 443 ssl", port, upstream)
    config.write_text(NGINX.format(folder=folder, user=user, told=text))
    return [find_program("nginx"), "-p", folder, "-e", folder / "error.log", "-c", config]


def haproxy(folder, port, upstream):
    config = folder / "haproxy.cfg"
    text = told("haproxy", "bind :443 ssl crt /etc/haproxy/matrix.pem", port, upstream)
    config.write_text(HAPROXY.format(told=text))
    return [find_program("haproxy"), "-db", "-f", config]


@pytest.fixture(params=[nginx, haproxy], ids=["nginx", "haproxy"])
def front(request, fairgate, tmp_path):
    port = free_port()
    log = tmp_path / "output"
    with log.open("wb") as out:
        child = subprocess.Popen(
            request.param(tmp_path, port, fairgate.port), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )

    def up():
        assert child.poll() is None, log.read_text()
        with contextlib.suppress(OSError), contextlib.closing(connect(port)) as connection:
            connection.connect()
            return True
        return False

    try:
        wait_for(up, what="the proxy in front")
        yield port
    finally:
        child.terminate()
        child.wait(10)


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=40)


def exchange(connection, account, method, path, body=None):
    headers = {"Authorization": f"Bearer {account.access_token}", "Content-Type": "application/octet-stream"}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def test_many_requests_on_one_connection(front, synapse):
    with contextlib.closing(connect(front)) as connection:
        for _ in range(50):
            status, body = exchange(connection, synapse.alice, "GET", "/_matrix/client/v3/account/whoami")
            assert (status, json.loads(body)["user_id"]) == (200, "@alice:localhost")


def test_media_comes_back_as_it_went(front, synapse):
    content = os.urandom(5 * MIB)
    with contextlib.closing(connect(front)) as connection:
        status, body = exchange(
            connection, synapse.alice, "POST", "/_matrix/media/v3/upload?filename=five", content
        )
        assert status == 200, body
        media = json.loads(body)["content_uri"].removeprefix("mxc://")
        status, body = exchange(
            connection, synapse.alice, "GET", f"/_matrix/client/v1/media/download/{media}"
        )
        assert (status, body == content) == (200, True)


def test_a_long_poll_is_woken_by_a_message(front, synapse, room, say):
    since = ask(synapse.url, synapse.bob, "GET", "/sync?timeout=0")["next_batch"]
    while True:  # until nothing more comes, so that only the message can wake the poll
        path = f"/_matrix/client/v3/sync?timeout=30000&since={since}"
        answers = []
        began_at = time.monotonic()
        connection = connect(front)
        poll = threading.Thread(target=lambda: answers.append(exchange(connection, synapse.bob, "GET", path)))  # noqa: B023
        poll.start()
        poll.join(0.5)
        if poll.is_alive():
            say("wake up")
            poll.join(15)
        connection.close()
        assert answers, "the poll was not woken"
        status, body = answers[0]
        assert status == 200
        answer = json.loads(body)
        since = answer["next_batch"]
        joined = answer.get("rooms", {}).get("join", {}).get(room)
        if joined and time.monotonic() - began_at >= 0.5:
            break
    assert [event["content"]["body"] for event in joined["timeline"]["events"]] == ["wake up"]
