import pytest
from requests_support import request
from structlog.testing import capture_logs

from proxy.errors import Reason
from proxy.matrix.endpoint import RouteClass
from proxy.observability import trace as trace_module
from proxy.observability.recorder import Recorder
from proxy.observability.repeats import EACH, PERIOD_S
from proxy.observability.settings import LogSettings

CLASSES = [route.name.lower() for route in RouteClass]
SYNC = b"/_matrix/client/v3/sync?since=1&timeout=30000"


def recorder(**settings):
    return Recorder(LogSettings(**settings), CLASSES, 0.0)


def test_a_request_that_ended_is_in_both_histograms_of_its_class():
    one = recorder()
    one.ended(request(wait_s=0.03), 100.53)
    seen = one.durations.statistics()
    assert seen.waits["requests"].total_s == pytest.approx(0.03)
    assert seen.services["requests"].total_s == pytest.approx(0.5)


def test_a_long_poll_counts_with_its_service_and_a_tunnel_not_at_all():
    one = recorder()
    one.ended(request(SYNC, ticket=False), 130.0)
    one.ended(request(ticket=False, status=101), 5000.0)
    seen = one.durations.statistics()
    assert seen.services["sync"].count == 1
    assert sum(histogram.count for histogram in seen.services.values()) == 1
    assert sum(histogram.count for histogram in seen.waits.values()) == 0


def test_a_slow_request_has_a_line_and_a_slow_long_poll_has_none():
    one = recorder(slow_seconds=2)
    with capture_logs() as lines:
        one.ended(request(), 101.9)
        one.ended(request(wait_s=1.5), 103.6)
        one.ended(request(SYNC, ticket=False), 130.0)
    (line,) = lines
    assert (line["event"], line["log_level"], line["service_seconds"]) == ("slow", "info", 2.1)
    assert (line["wait_seconds"], line["flow"], line["address"]) == (1.5, "@a:b", "192.0.2.1")
    assert line["request_id"] == "fg-1"


def test_a_refusal_has_a_line_its_repeats_are_summed():
    one = recorder()
    with capture_logs() as lines:
        for _ in range(EACH + 3):
            one.refused(request(SYNC), Reason.SYNC_TOTAL, 100.0)
        one.refused(request(flow="@c:d"), Reason.LINE_FULL, 100.0)
        one.refused(None, Reason.HEAD_TIMEOUT, 100.0)
        one.turn(PERIOD_S)
    assert [line["event"] for line in lines] == ["refused"] * (EACH + 2) + ["refused, repeated"]
    assert lines[0]["reason"] == "sync_total"
    assert lines[0]["status"] == 429
    assert lines[-1] | {"log_level": ""} == {
        "event": "refused, repeated", "log_level": "", "reason": "sync_total", "flow": "@a:b", "times": 3,
    }  # fmt: skip
    assert [(hitter.name, hitter.times) for hitter in one.refused_flows.top(5)] == [
        ("@a:b", EACH + 3),
        ("@c:d", 1),
    ]


def test_a_refusal_of_half_a_head_says_who_sent_it_and_is_summed_by_address():
    one = recorder()
    with capture_logs() as lines:
        for address in ["192.0.2.7"] * (EACH + 2) + ["192.0.2.8"]:
            one.refused(None, Reason.HEAD_TIMEOUT, 100.0, address)
        one.turn(PERIOD_S)
    assert [line["address"] for line in lines[:-1]] == ["192.0.2.7"] * EACH + ["192.0.2.8"]
    assert (lines[-1]["flow"], lines[-1]["times"]) == ("192.0.2.7", 2)
    assert one.refused_flows.count("192.0.2.7") == EACH + 2


def test_answers_are_counted_by_route_and_status_class():
    one = recorder()
    for status in (200, 204, 404, 599, 0):
        one.ended(request(status=status), 101.0)
    one.ended(request(SYNC, ticket=False), 130.0)
    one.ended(request(SYNC, ticket=False, status=101), 130.0)
    answers = one.answers_total()
    assert answers["requests"] == {"1xx": 0, "2xx": 2, "3xx": 0, "4xx": 1, "5xx": 1}
    assert answers["sync"] == {"1xx": 1, "2xx": 1, "3xx": 0, "4xx": 0, "5xx": 0}
    assert sum(map(sum, (classes.values() for classes in answers.values()))) == 6


def test_how_long_the_homeserver_took_is_kept_where_each_answer_has_a_line():
    for access, times in (("refused", None), ("all", (1.0, 2.0))):
        one = recorder(access=access)
        asked = request(wait_s=1.0)
        one.ended(asked, 103.0)
        assert getattr(asked, "times", None) == times


def test_where_all_requests_have_a_line_so_has_every_refusal():
    one = recorder(access="all")
    with capture_logs() as lines:
        for _ in range(50):
            one.refused(request(), Reason.LINE_FULL, 100.0)
    assert len(lines) == 50


def test_where_none_has_a_line_no_refusal_has_but_it_is_counted():
    one = recorder(access="none")
    with capture_logs() as lines:
        one.refused(request(), Reason.LINE_FULL, 100.0)
        one.reported(request(), Reason.LINE_FULL)
    assert lines == []
    assert one.refused_flows.count("@a:b") == 1
    assert one.reported_total[Reason.LINE_FULL] == 1


def test_what_would_be_refused_is_told_as_such_and_counted_apart():
    one = recorder()
    with capture_logs() as lines:
        for _ in range(EACH + 1):
            one.reported(request(), Reason.LINE_FULL)
        one.turn(PERIOD_S)
    assert {line["event"] for line in lines} == {"would refuse", "would refuse, repeated"}
    assert one.reported_total[Reason.LINE_FULL] == EACH + 1
    assert one.refused_flows.top(1) == []


def test_one_line_a_minute_names_the_flows_that_had_most_since_the_last():
    one = recorder(top_every_seconds=60)
    had = {"@a:b": 10.0, "192.0.2.1": 3.0, "@idle:b": 50.0}
    one.top_flows = lambda _: [(flow, seconds, 1, 2) for flow, seconds in had.items()]
    with capture_logs() as lines:
        one.turn(59.9)
        assert lines == []
        one.turn(60.0)
        had["192.0.2.1"] = 30.0
        had["@a:b"] = 11.0
        one.turn(120.0)
    assert [entry["flow"] for entry in lines[0]["flows"]] == ["@idle:b", "@a:b", "192.0.2.1"]
    assert [(e["flow"], e["worker_seconds"]) for e in lines[1]["flows"]][:2] == [
        ("192.0.2.1", 27.0),
        ("@a:b", 1.0),
    ]


def test_nobody_busy_is_no_line():
    one = recorder(top_every_seconds=60)
    with capture_logs() as lines:
        one.turn(60.0)
    assert lines == []


def test_other_settings_take_effect_at_once(tmp_path):
    one = recorder(access="none")
    one.configure(LogSettings(trace=str(tmp_path / "a")), 0.0)
    with capture_logs() as lines:
        one.refused(request(), Reason.LINE_FULL, 100.0)
        one.configure(LogSettings(trace=str(tmp_path / "b")), 0.0)
        one.refused(request(), Reason.LINE_FULL, 100.0)
        one.configure(LogSettings(), 0.0)
        one.configure(LogSettings(trace=str(tmp_path / "none" / "b")), 0.0)
    assert [(tmp_path / name).read_text().count("\n") for name in "ab"] == [1, 1]
    assert lines[-1]["event"] == "the trace cannot be opened"


def test_what_was_summed_so_far_is_told_at_the_end():
    one = recorder()
    with capture_logs() as lines:
        for _ in range(EACH + 2):
            one.refused(request(), Reason.LINE_FULL, 100.0)
        one.close()
    assert (lines[-1]["event"], lines[-1]["times"]) == ("refused, repeated", 2)


def test_lines_that_traces_lost_are_counted_over_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_module, "MAX_KEPT", 1)
    one = recorder(access="none")
    for name, lost in (("a", 1), ("b", 2)):
        one.configure(LogSettings(access="none", trace=str(tmp_path / name)), 0.0)
        for _ in range(2):
            one.refused(request(), Reason.LINE_FULL, 100.0)
        assert one.trace_lost_total == lost
    one.close()
    assert one.trace_lost_total == 2
