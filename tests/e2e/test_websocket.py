import http
import queue
import threading

import pytest
from e2e_support import MIB, VERSIONS, RawUpstream, read_response, running_fairgate, wait_for
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve

PATH = "/_matrix/client/unstable/stream"
UPGRADE = (
    f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
).encode()
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


@pytest.fixture(scope="module")
def endings():
    return queue.Queue()


@pytest.fixture(scope="module")
def echo(endings, tmp_path_factory):
    """Fairgate in front of an echo server, which says 403 to other paths and closes as it is told."""

    def talk(connection):
        try:
            for message in connection:
                if isinstance(message, str) and message.startswith("close with "):
                    connection.close(int(message.rpartition(" ")[2]), "as told")
                else:
                    connection.send(message)
        except ConnectionClosed:
            pass
        endings.put((connection.close_code, connection.close_reason))

    def admit(connection, request):
        if request.path.endswith("/versions"):
            return connection.respond(http.HTTPStatus.OK, VERSIONS.decode())
        return None if request.path == PATH else connection.respond(http.HTTPStatus.FORBIDDEN, "not here\n")

    with serve(talk, "127.0.0.1", 0, process_request=admit, max_size=2 * MIB) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]
        with running_fairgate(tmp_path_factory.mktemp("websocket"), f"http://127.0.0.1:{port}") as fairgate:
            yield f"ws://127.0.0.1:{fairgate.port}"
        server.shutdown()
        thread.join(10)


def open_socket(url):
    return connect(url, max_size=2 * MIB, proxy=None)


def test_messages_small_and_large_are_echoed(echo):
    with open_socket(echo + PATH) as client:
        for message in ("hello", b"\x00\xff", "x" * MIB, b"\x80" * MIB, ""):
            client.send(message)
            assert client.recv(timeout=10) == message


def test_the_clients_close_code_reaches_the_server(echo, endings):
    with open_socket(echo + PATH) as client:
        while not endings.empty():
            endings.get()
        client.close(4001, "enough")
    assert endings.get(timeout=5) == (4001, "enough")


def test_the_servers_close_code_reaches_the_client(echo):
    with open_socket(echo + PATH) as client:
        client.send("close with 4002")
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=5)
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4002, "as told")


def test_a_refused_upgrade_is_passed_on_with_its_body(echo):
    with pytest.raises(InvalidStatus) as refused, open_socket(echo + "/elsewhere"):
        pass
    assert (refused.value.response.status_code, refused.value.response.body) == (403, b"not here\n")


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Fairgate in front of a server that switches when told; `ended` counts the upgrades whose end it saw."""
    heads, ended, switch = queue.Queue(), queue.Queue(), threading.Event()

    def serve_raw(connection):
        while head := connection.read_head():
            if b"Upgrade: websocket" not in head:
                connection.answer()
                continue
            heads.put(head)
            assert switch.wait(20)
            connection.sock.sendall(SWITCHING)
            ended.put(connection.wait_end(30))

    folder = tmp_path_factory.mktemp("slow")
    with RawUpstream(serve_raw) as upstream:
        with running_fairgate(folder, upstream.url, profile="generic") as fairgate:
            yield fairgate, heads, ended, switch
        switch.set()


def test_a_client_that_leaves_right_after_its_head_leaves_nothing_open(slow):
    fairgate, heads, ended, switch = slow
    switch.clear()
    with fairgate.connect() as client:
        client.sendall(UPGRADE)
    # It may be seen to leave before or after its request went on.
    with fairgate.connect() as other:
        other.sendall(b"GET /after HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_response(other)[0].startswith(b"HTTP/1.1 200")
    assert ended.empty(), "what the server works on is not cut off"
    switch.set()
    wait_for(lambda: ended.qsize() == heads.qsize(), 2, "every upgrade the server saw ended")
    while not heads.empty():
        heads.get(), ended.get()


def test_the_server_sees_a_client_leave_its_tunnel(slow):
    fairgate, heads, ended, switch = slow
    switch.set()
    with fairgate.connect() as client:
        client.sendall(UPGRADE)
        heads.get(timeout=5)
        assert client.recv(4096).startswith(b"HTTP/1.1 101")
        assert ended.empty()
    ended.get(timeout=1)


def test_a_tunnel_that_the_server_opens_for_nobody_ends_at_once(slow):
    fairgate, heads, ended, switch = slow
    switch.clear()
    with fairgate.connect() as client:
        client.sendall(UPGRADE)
        heads.get(timeout=5)
    wait_for(lambda: fairgate.connections() == 0, 5, "the client is gone")
    assert ended.empty()
    switch.set()
    assert ended.get(timeout=5) < 1
