import contextlib
import http.server
import threading

import image
import pytest


@pytest.fixture(scope="session")
def built_image():
    """The image's configuration, once it is built."""
    reason = image.why_not_here()
    if reason is not None:
        pytest.skip(reason)
    image.build()
    return image.inspect()


@pytest.fixture(scope="session")
def image_root(built_image):
    """The image's files, mounted; where they are."""
    assert built_image
    container = image.buildah("from", "--pull-never", image.IMAGE)
    yield image.buildah("mount", container)
    image.buildah("rm", container)


@pytest.fixture
def homeserver():
    """A stand-in that answers every GET with the same JSON; the list of paths asked for, and its URL."""
    with _answering() as server:
        yield server


@contextlib.contextmanager
def _answering():
    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.server.asked.append(self.path)
            body = b'{"versions":["v1.11"]}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.asked = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
