import queue
import socket
import statistics
import struct
import threading
import time

import pytest
from e2e_support import RawUpstream, read_response, running_fairgate, wait_for

REQUEST = b"GET /_matrix/client/v3/sync?timeout=30000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOTICED_WITHIN_S = 0.1  # the promise; by the median of several, since the machine has other work too
TIMES = 7
RESET = struct.pack("ii", 1, 0)  # linger for 0 s: close() sends RST


@pytest.fixture(scope="module")
def holder(tmp_path_factory):
    """Fairgate in front of a server that holds every answer and ends its work with its client; tells of requests and ends."""
    begun, ended = queue.Queue(), queue.Queue()

    def hold(connection):
        while head := connection.read_head():
            begun.put(head)
            ended.put(connection.wait_end(30))

    folder = tmp_path_factory.mktemp("leaving")
    with RawUpstream(hold) as upstream:
        profile = "tuwunel"  # of which every GET ends with its client
        with running_fairgate(folder, upstream.url, profile=profile) as fairgate:
            yield fairgate, begun, ended


def leave(client, how):
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()


def seconds_to_notice(holder, how, ahead=b""):
    fairgate, begun, ended = holder
    client = fairgate.connect()
    client.sendall(REQUEST)
    begun.get(timeout=5)
    client.sendall(ahead)
    left_at = time.monotonic()
    leave(client, how)
    ended.get(timeout=5)
    assert begun.empty(), "what it sent ahead was served to nobody"
    return time.monotonic() - left_at


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_in_service_is_noticed(holder, how):
    assert statistics.median(seconds_to_notice(holder, how) for _ in range(TIMES)) < NOTICED_WITHIN_S


@pytest.mark.parametrize("how", ["close", "reset"])
def test_so_is_one_whose_connection_is_paused(holder, how):
    ahead = REQUEST * (65536 // len(REQUEST))
    assert statistics.median(seconds_to_notice(holder, how, ahead) for _ in range(TIMES)) < NOTICED_WITHIN_S


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_homeserver_that_works_on_is_not_cut_off(tmp_path, how):
    begun, go_on, cut = queue.Queue(), threading.Event(), []

    def think(connection):
        while head := connection.read_head():
            begun.put((connection, head))
            if b"/sync" in head:
                assert go_on.wait(20)
                cut.append(connection.is_cut())
            connection.answer()

    with (
        RawUpstream(think) as upstream,
        running_fairgate(tmp_path, upstream.url, profile="generic") as fairgate,
    ):
        client = fairgate.connect()
        client.sendall(REQUEST)
        first = begun.get(timeout=5)[0]
        leave(client, how)
        wait_for(lambda: fairgate.connections() == 0, 5, "the client is gone")
        go_on.set()
        wait_for(lambda: cut, 5, "the homeserver answered")
        with fairgate.connect() as other:
            other.sendall(b"GET /after HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_response(other)[0].startswith(b"HTTP/1.1 200")
        assert cut == [False]
        assert begun.get(timeout=5)[0] is first, "its connection serves the next"
