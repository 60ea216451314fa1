import queue
import socket
import struct

import pytest
from e2e_support import RawUpstream, running_fairgate

REQUEST = b"GET /_matrix/client/v3/sync?timeout=30000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOTICED_WITHIN_S = 0.5  # the promise is 0.1 s; the rest is for a busy machine
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


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_in_service_is_noticed(holder, how):
    fairgate, begun, ended = holder
    client = fairgate.connect()
    client.sendall(REQUEST)
    begun.get(timeout=5)
    leave(client, how)
    ended.get(timeout=NOTICED_WITHIN_S)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_so_is_one_whose_connection_is_paused(holder, how):
    fairgate, begun, ended = holder
    client = fairgate.connect()
    client.sendall(REQUEST)
    begun.get(timeout=5)
    ahead = REQUEST * (65536 // len(REQUEST))
    client.sendall(ahead)
    leave(client, how)
    ended.get(timeout=NOTICED_WITHIN_S)
    assert begun.empty(), "what it sent ahead was served to nobody"
