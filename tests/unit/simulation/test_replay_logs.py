import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.matrix.endpoint import Lane
from proxy.simulation.recorded import (
    UNKNOWN_S,
    Recorded,
    find_format,
    parse_combined,
    parse_haproxy,
    parse_synapse,
    parse_trace,
)
from proxy.simulation.replay import in_order

AT = 1796032800.0  # 30 November 2026, 10:00 UTC
SYNAPSE = (
    "2026-11-30 10:00:02,250 - synapse.access.http.8008 - 515 - INFO - GET-42 - 192.0.2.7 - 8008 - {@alice:example.org} "
    "Processed request: 2.150sec/0.001sec (0.010sec, 0.001sec) (0.001sec/0.005sec/3) 1234B 200 "
    '"GET /_matrix/client/v3/rooms/!a:b/messages?dir=b&access_token=<redacted> HTTP/1.1" "Element" [0 dbevts]'
)
HAPROXY = (
    "Nov 30 10:00:01 lb haproxy[12]: 2001:db8::1:50123 [30/Nov/2026:10:00:01.500] matrix~ synapse/s1 10/200/1/289/500 "
    '200 1234 - - ---- 1/1/1/1/0 0/0 "GET /_matrix/client/v3/sync?since=s1&timeout=20000 HTTP/1.1"'
)
NGINX = (
    '192.0.2.7 - - [30/Nov/2026:11:00:03 +0100] "PUT /_matrix/client/v3/rooms/!a:b/send/m.room.message/1 HTTP/2.0" '
    '200 41 "-" "Element/1.11 (X11; 4.2)"'
)
TRACE = {
    "v": 1, "at": AT, "flow": "@alice:b", "address": "192.0.2.7", "method": "GET", "endpoint": "sync", "class": "sync",
    "lane": None, "poll_s": 30.0, "device": "D", "confirmed": True, "service_s": 12.5, "status": 200,
}  # fmt: skip


def trace(**fields):
    return json.dumps(TRACE | fields, separators=(",", ":"))


def test_synapse_tells_account_and_duration():
    one = parse_synapse(SYNAPSE)
    assert (one.account, one.address, one.label, one.history) == (
        "@alice:example.org",
        "192.0.2.7",
        "history",
        True,
    )
    assert one.service_s == 2.15
    assert one.at == pytest.approx(AT + 0.1)
    assert parse_synapse(SYNAPSE.replace("@alice:example.org", "None")).account is None


def test_haproxy_tells_when_it_came_and_its_queue_is_left_out():
    one = parse_haproxy(HAPROXY)
    assert (one.address, one.at, one.service_s) == ("2001:db8::1", AT + 1.5, 0.29)
    assert (one.label, one.lane, one.poll_s) == ("sync", Lane.NONE, 20.0)


def test_combined_logs_have_a_duration_only_where_it_is_added():
    plain = parse_combined(NGINX)
    assert (plain.address, plain.label, plain.service_s) == ("192.0.2.7", "requests", None)
    assert AT + 3 <= plain.at < AT + 4
    for end in (" 0.250", " rt=0.250", ' "-" request_time=0.250'):
        timed = parse_combined(NGINX + end)
        assert timed.service_s == 0.25
        assert AT + 2.75 <= timed.at < AT + 3.75


def test_lines_of_one_second_are_spread_over_it_and_the_same_each_time():
    lines = [NGINX.replace("send/m.room.message/1", f"send/m.room.message/{n}") for n in range(200)]
    moments = [parse_combined(line).at for line in lines]
    assert max(moments) - min(moments) > 0.8
    assert moments == [parse_combined(line).at for line in lines]


def test_a_trace_tells_everything():
    assert parse_trace(trace()) == Recorded(
        AT, "@alice:b", "D", "192.0.2.7", "sync", Lane.NONE, False, 30.0, 12.5, False, None
    )
    refused = parse_trace(trace(refused="sync_total", service_s=None, poll_s=None))
    assert (refused.was_refused, refused.poll_s) == ("sync_total", UNKNOWN_S)
    bot = parse_trace(trace(flow="appservice @bot:b", lane="appservices"))
    assert (bot.account, bot.appservice, bot.lane) == ("@bot:b", True, Lane.APPSERVICES)
    guest = parse_trace(trace(flow="192.0.2.7", confirmed=False))
    assert guest.account is None


@pytest.mark.parametrize("parse", [parse_trace, parse_synapse, parse_haproxy, parse_combined])
@given(
    line=st.one_of(
        st.text(max_size=200), st.sampled_from(['{"v":1,', '{"v":1,"at":"x"}', '{"v":1,"flow":1}'])
    )
)
def test_what_is_no_such_line_is_none(parse, line):
    parse(line)  # never raises
    assert parse("") is None


def test_the_format_is_what_most_lines_are_in():
    assert find_format([SYNAPSE, SYNAPSE, "noise"]).name == "synapse"
    assert find_format([HAPROXY]).name == "haproxy"
    assert find_format([NGINX, NGINX + " 0.1"]).name == "combined"
    assert find_format([trace()]).name == "trace"
    assert find_format(["a", "b", NGINX]) is None
    assert find_format([]) is None


REQUESTS = st.lists(st.tuples(st.floats(0, 500), st.floats(0, 100)), max_size=60)


@given(REQUESTS)
def test_lines_that_come_when_they_ended_are_put_in_the_order_in_which_they_began(requests):
    logged = sorted((at + lasts, at, lasts) for at, lasts in requests)
    told = [Recorded(at, None, None, "a", "requests", 0, False, None, lasts) for _, at, lasts in logged]
    ordered = list(in_order(told, window_s=100.0))
    assert [one.at for one in ordered] == sorted(at for at, _ in requests)


@given(REQUESTS)
def test_time_never_goes_back_however_short_the_window(requests):
    told = [Recorded(at, None, None, "a", "requests", 0, False, None, lasts) for at, lasts in requests]
    ordered = [one.at for one in in_order(told, window_s=5.0)]
    assert ordered == sorted(ordered)
    assert len(ordered) == len(requests)
