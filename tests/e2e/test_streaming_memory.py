import queue
import threading
import time

import pytest
from e2e_support import MIB, RawUpstream, running_fairgate

SIZE = 1024 * MIB
BURST = 32 * MIB
PAUSE_S = 0.05  # what makes the reader the slow side
MAX_GROWTH = 64 * MIB
PIECE = bytes(range(256)) * 256
WHOAMI = b'{"user_id":"@alice:localhost","device_id":"D"}'
CONFIG = b'{"m.upload.size":%d}' % SIZE


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    received = queue.Queue()

    def serve(connection):
        while head := connection.read_head():
            if b"/account/whoami " in head:
                connection.answer(WHOAMI)
            elif b"/config " in head:
                connection.answer(CONFIG)
            elif head.startswith(b"GET"):
                connection.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
                for _ in range(SIZE // len(PIECE)):
                    connection.sock.sendall(PIECE)
            else:
                received.put(in_bursts(connection.read_body(SIZE, MIB)))
                connection.answer()

    folder = tmp_path_factory.mktemp("streams")
    with RawUpstream(serve) as upstream, running_fairgate(folder, upstream.url) as fairgate:
        yield fairgate, received


def in_bursts(pieces):
    """Take all pieces, pausing after each burst; gives how many bytes there were."""
    total = burst = 0
    for piece in pieces:
        total += len(piece)
        burst += len(piece)
        if burst >= BURST:
            burst = 0
            time.sleep(PAUSE_S)
    return total


def pieces_of(client, length):
    while length:
        data = client.recv(MIB)
        assert data, "cut short"
        length -= len(data)
        yield data


def test_a_long_download_to_a_slow_reader_takes_no_memory(streams):
    fairgate, _ = streams
    idle = fairgate.memory()
    with fairgate.connect() as client:
        client.sendall(b"GET /_matrix/client/v1/media/download/a/b HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        assert in_bursts(pieces_of(client, SIZE)) == SIZE
    assert fairgate.memory("VmHWM") - idle < MAX_GROWTH


def test_a_long_upload_to_a_slow_homeserver_takes_no_memory(streams):
    fairgate, received = streams
    idle = fairgate.memory()
    head = (
        b"POST /_matrix/media/v3/upload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alices\r\n"
        b"Content-Length: %d\r\n\r\n" % SIZE
    )
    with fairgate.connect() as client:
        client.sendall(head)
        sender = threading.Thread(target=lambda: [client.sendall(PIECE) for _ in range(SIZE // len(PIECE))])
        sender.start()
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        sender.join(5)
    assert received.get(timeout=5) == SIZE
    assert fairgate.memory("VmHWM") - idle < MAX_GROWTH
