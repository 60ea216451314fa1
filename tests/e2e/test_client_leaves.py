import queue
import socket
import statistics
import struct
import time

import pytest
from e2e_support import RawUpstream, running_fairgate

REQUEST = b"GET /_matrix/client/v3/sync?timeout=30000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOTICED_WITHIN_S = 0.1  # the promise; by the median of several, since the machine has other work too
TIMES = 7
RESET = struct.pack("ii", 1, 0)  # linger for 0 s: close() sends RST


@pytest.fixture(scope="module")
def holder(tmp_path_factory):
    """Fairgate in front of a server that holds every answer; tells of requests and of their ends."""
    begun, ended = queue.Queue(), queue.Queue()

    def hold(connection):
        while head := connection.read_head():
            begun.put(head)
            ended.put(connection.wait_end(30))

    folder = tmp_path_factory.mktemp("leaving")
    with RawUpstream(hold) as upstream, running_fairgate(folder, upstream.url) as fairgate:
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
