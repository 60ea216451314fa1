import json
import stat

import pytest
from requests_support import request
from structlog.testing import capture_logs

from proxy import clock
from proxy.errors import Reason
from proxy.observability import trace as trace_module
from proxy.observability.trace import Trace

SYNC = b"/_matrix/client/v3/sync?since=s1&timeout=30000&access_token=s3cret"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_request_is_one_line_that_says_who_what_for_and_what_came_of_it(path):
    trace = Trace(path)
    trace.ended(request(wait_s=0.25, started_at=100.0), 101.0)
    trace.refused(request(SYNC, ticket=False, started_at=100.0, background=True), Reason.SYNC_DEVICE, 102.0)
    trace.close()
    served, refused = lines_of(path)
    wall = clock.wall_time() - clock.now()
    assert served.pop("at") == pytest.approx(wall + 100.0, abs=1)
    assert served == {
        "v": 1, "flow": "@a:b", "address": "192.0.2.1", "method": "GET", "endpoint": "other", "class": "requests",
        "lane": "requests", "device": "D", "confirmed": True, "wait_s": 0.25, "service_s": 0.75, "status": 200,
    }  # fmt: skip
    assert (refused["lane"], refused["poll_s"], refused["background"]) == (None, 30.0, True)
    assert (refused["refused"], refused["status"], refused["wait_s"]) == ("sync_device", 429, 2.0)


def test_no_target_and_so_no_token_is_in_it_and_nobody_else_may_read_it(path):
    trace = Trace(path)
    trace.ended(request(SYNC, ticket=False), 101.0)
    trace.close()
    assert "s3cret" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_appservices_have_their_lane(path):
    trace = Trace(path)
    trace.ended(request(appservice=True, flow="appservice @bot:b"), 101.0)
    trace.close()
    assert lines_of(path)[0]["lane"] == "appservices"


def test_the_file_is_bounded_and_the_one_before_is_kept(path):
    trace = Trace(path, max_file_bytes=1000)
    for number in range(20):
        trace.ended(request(flow=f"@user{number}:b"), 101.0)
        trace.write()
        trace._writing.result(5)
    trace.close()
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["trace.jsonl", "trace.jsonl.1"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert lines_of(path)[-1]["flow"] == "@user19:b"


def test_memory_is_bounded_while_the_disk_does_not_take_it(path, monkeypatch):
    monkeypatch.setattr(trace_module, "MAX_KEPT", 3)
    trace = Trace(path)
    for _ in range(5):
        trace.ended(request(), 101.0)
    assert trace.lost_total == 2
    trace.close()
    assert len(lines_of(path)) == 3


def test_a_disk_that_fails_is_told_once(path):
    trace = Trace(path, max_file_bytes=10)
    with capture_logs() as lines:
        for _ in range(4):
            trace.ended(request(), 101.0)
            trace.write()
            trace._writing.exception(5)
            path.unlink(missing_ok=True)  # so that it cannot be put aside
    trace.close()
    assert [line["event"] for line in lines] == ["the trace cannot be written"]
    assert trace.lost_total >= 2
