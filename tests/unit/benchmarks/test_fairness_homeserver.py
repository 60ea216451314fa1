import pytest

from benchmarks.fairness.addresses import BRIDGE_TOKEN, token_of
from benchmarks.fairness.homeserver import REQUEST_WORKERS, SYNC_WORKERS, Connection, Site
from benchmarks.fairness.wire import get, request

WORK = "/_matrix/client/v3/rooms/!r/state?ms=300"
UPLOAD = "/_matrix/media/v3/upload"
ALICE = token_of("alice")


class FakeLoop:
    """Time that passes when a test says so."""

    def __init__(self):
        self.now = 0.0
        self._due = []

    def call_later(self, delay, callback):
        self._due.append((self.now + delay, callback))

    def call_soon(self, callback):
        self.call_later(0, callback)

    def run_until(self, at):
        while due := [entry for entry in self._due if entry[0] <= at]:
            first = min(due, key=lambda entry: entry[0])
            self._due.remove(first)
            self.now = first[0]
            first[1]()
        self.now = at


class FakeTransport:
    """A client's end: `takes` says whether its kernel takes what is written."""

    def __init__(self, *, takes=True):
        self.takes = takes
        self.written = b""
        self.reading = True
        self.aborted = False
        self.protocol = None

    def set_write_buffer_limits(self, high):
        assert high == 0

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def write(self, data):
        self.written += data
        if not self.takes:
            self.protocol.pause_writing()

    def abort(self):
        self.aborted = True

    @property
    def statuses(self):
        return [part[:3].decode() for part in self.written.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture
def loop():
    return FakeLoop()


@pytest.fixture
def site(loop):
    return Site(loop)


def connected(site, *sent, takes=True):
    transport = FakeTransport(takes=takes)
    transport.protocol = connection = Connection(site)
    connection.connection_made(transport)
    for data in sent:
        connection.data_received(data)
    return transport, connection


def test_sixteen_are_in_service_and_the_next_waits_for_the_first_to_end(site, loop):
    clients = [connected(site, get(WORK, ALICE))[0] for _ in range(REQUEST_WORKERS + 1)]
    assert site.requests.busy == REQUEST_WORKERS
    loop.run_until(0.31)
    assert [client.statuses for client in clients] == [["200"]] * 16 + [[]]
    loop.run_until(0.61)
    assert clients[-1].statuses == ["200"]
    assert site.requests.busy == 0


def test_service_goes_on_when_its_client_leaves(site, loop):
    _, connection = connected(site, get(WORK, ALICE))
    connection.connection_lost(None)
    loop.run_until(0.29)
    assert site.requests.busy == 1
    loop.run_until(0.31)
    assert site.requests.busy == 0


def test_a_request_whose_client_left_in_the_line_is_still_served(site, loop):
    for _ in range(REQUEST_WORKERS):
        connected(site, get(WORK, ALICE))
    _, connection = connected(site, get(WORK, ALICE))
    connection.connection_lost(None)
    loop.run_until(0.59)
    assert site.requests.busy == 1
    loop.run_until(0.61)
    assert site.requests.busy == 0


def test_a_body_is_read_by_the_worker_and_one_that_cannot_come_frees_it(site, loop):
    whole = request("POST", UPLOAD, ALICE, bytes(1000))
    transport, connection = connected(site, whole[:-400])
    assert (site.requests.busy, transport.reading) == (1, True)
    connection.connection_lost(None)
    assert site.requests.busy == 0
    loop.run_until(1)
    assert transport.written == b""


def test_a_body_in_pieces_is_answered_after_its_last_byte(site, loop):
    whole = request("POST", UPLOAD, ALICE, bytes(1000))
    transport, connection = connected(site, whole[:30], whole[30:700])
    loop.run_until(1)
    assert transport.written == b""
    connection.data_received(whole[700:])
    loop.run_until(2)
    assert transport.statuses == ["200"]


def test_who_does_not_read_the_answer_keeps_the_worker(site, loop):
    transport, connection = connected(
        site, get("/_matrix/client/v1/media/download/bench/1mib", ALICE), takes=False
    )
    loop.run_until(5)
    assert site.requests.busy == 1
    assert len(transport.written) > 1 << 20
    connection.resume_writing()
    assert site.requests.busy == 0


def test_who_leaves_without_reading_the_answer_frees_the_worker(site, loop):
    _, connection = connected(site, get("/_matrix/client/v1/media/download/bench/1mib", ALICE), takes=False)
    loop.run_until(5)
    connection.connection_lost(None)
    assert site.requests.busy == 0


def test_pipelined_requests_are_served_one_at_a_time_in_their_order(site, loop):
    upload = request("POST", UPLOAD, "garbage", bytes(100))
    transport, _ = connected(site, get(WORK, ALICE) + upload[:-50], upload[-50:] + get(WORK, ALICE))
    assert site.requests.at_once == 1
    loop.run_until(0.2)
    assert site.requests.at_once == 1
    loop.run_until(1)
    assert transport.statuses == ["200", "401", "200"]
    assert site.requests.busy == 0


def test_an_upload_without_a_token_is_read_whole_then_refused_and_its_bytes_counted(site, loop):
    whole = request("POST", UPLOAD, None, bytes(1000))
    transport, connection = connected(site, whole[:-400])
    loop.run_until(1)
    assert transport.written == b""
    connection.data_received(whole[-400:])
    loop.run_until(2)
    assert transport.statuses == ["401"]
    assert site.report()["unconfirmed_upload_bytes"] == 1000
    assert site.report()["unconfirmed_upload_bytes"] == 0


def test_a_sync_holds_a_worker_of_its_own_kind_until_its_timeout(site, loop):
    polls = [
        connected(site, get("/_matrix/client/v3/sync?since=s1&timeout=30000", ALICE))[0] for _ in range(33)
    ]
    assert (site.syncs.busy, site.syncs.at_once, site.requests.busy) == (SYNC_WORKERS, 33, 0)
    loop.run_until(29.9)
    assert polls[0].statuses == []
    loop.run_until(30)
    assert polls[0].statuses == ["200"]


@pytest.mark.parametrize(
    ("query", "token", "told"),
    [
        ("", ALICE, b'{"user_id": "@alice:bench", "device_id": "D1"}'),
        ("", BRIDGE_TOKEN, b'{"user_id": "@bridge:bench"}'),
        ("?user_id=%40ghost7%3Abench", BRIDGE_TOKEN, b'{"user_id": "@ghost7:bench"}'),
        ("", "garbage", b"M_UNKNOWN_TOKEN"),
        ("", None, b"M_MISSING_TOKEN"),
    ],
)
def test_whoami_tells_whose_a_token_is_and_takes_no_worker(site, loop, query, token, told):
    transport, _ = connected(site, get(f"/_matrix/client/v3/account/whoami{query}", token))
    assert (site.lookups.busy, site.requests.busy) == (1, 0)
    loop.run_until(0.01)
    assert told in transport.written


def test_bytes_that_are_no_request_end_the_connection(site):
    transport, _ = connected(site, b"hello\r\n\r\n")
    assert transport.aborted
