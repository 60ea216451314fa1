import pytest

from proxy.http1.drain import QUIET_S, Drain, Verdict

AT_REST = {"asked_total": 7, "busy": 0, "waits": 0, "newcomers": False}
LOOK_S = 0.05


@pytest.fixture
def looking():
    """Look every 50 ms: gives the verdict at the end of so many seconds."""
    drain = Drain(100.0)
    looks = [0]

    def look(for_s, **numbers):
        for _ in range(round(for_s / LOOK_S)):
            looks[0] += 1
            verdict = drain.look(100.0 + looks[0] * LOOK_S, **{**AT_REST, **numbers})
        return verdict

    return look


def test_parked_connections_end_after_a_second_in_which_none_of_them_asked(looking):
    assert looking(QUIET_S) is Verdict.GO_ON
    assert looking(0.1) is Verdict.END_PARKED


def test_a_request_of_one_of_them_makes_the_second_begin_anew(looking):
    looking(0.9)
    assert looking(0.9, asked_total=8) is Verdict.GO_ON
    assert looking(0.2, asked_total=8) is Verdict.END_PARKED


def test_parked_connections_stay_while_somebody_is_served(looking):
    assert looking(20, busy=1) is Verdict.GO_ON
    assert looking(0.9) is Verdict.GO_ON
    assert looking(0.2) is Verdict.END_PARKED


def test_they_stay_while_long_polls_hold_the_stop_anyway(looking):
    assert looking(20, waits=1) is Verdict.GO_ON


def test_long_polls_end_where_newcomers_wait_for_nothing_else(looking):
    assert looking(5, waits=3) is Verdict.GO_ON
    assert looking(0.2, waits=3, newcomers=True) is Verdict.GO_ON
    assert looking(0.2, waits=3, newcomers=True) is Verdict.END_WAITS


def test_work_under_way_is_never_ended_for_newcomers(looking):
    assert looking(20, busy=1, newcomers=True) is Verdict.GO_ON


def test_newcomers_that_somebody_accepts_in_time_end_nothing(looking):
    for _ in range(50):
        assert looking(0.15, waits=3, newcomers=True) is Verdict.GO_ON
        assert looking(0.05, waits=3) is Verdict.GO_ON


def test_newcomers_wait_two_seconds_at_most_for_parked_connections_that_go_on_asking(looking):
    for asked in range(20):
        assert looking(0.1, asked_total=asked, waits=3, newcomers=True) is Verdict.GO_ON
    assert looking(0.1, asked_total=21, waits=3, newcomers=True) is Verdict.END_WAITS
