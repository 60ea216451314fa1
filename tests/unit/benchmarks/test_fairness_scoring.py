import math

import pytest

from benchmarks.fairness.rows import ROWS, Row
from benchmarks.fairness.scoring import Bound, Watched, allowed_ms, disturbed, faults, percentile

ATTACK = Row("attack", "an attack")
BOUND = Bound(16, 32)


def watched(light, failures=None, late=(0.5,), sync=(500.0,), upload=(9.0,)):
    served = {"light": list(light), "sync": list(sync), "upload": list(upload)}
    return Watched.of({"ms": served, "failures": failures or {}, "late_ms": list(late)})


def homeserver(requests=5, syncs=2, lookups=1, unconfirmed=0):
    return {
        "unconfirmed_upload_bytes": unconfirmed,
        "requests": {"most_at_once": requests},
        "syncs": {"most_at_once": syncs},
        "lookups": {"most_at_once": lookups},
    }


BASE = watched([6.0] * 98 + [8.0] * 2)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([3, 1, 2], 50, 2), (range(1, 101), 99, 99), (range(1, 101), 100, 100), ([7], 1, 7)],
)
def test_a_percentile_is_the_nearest_rank(values, percent, expected):
    assert percentile(list(values), percent) == expected


def test_a_percentile_of_nothing_is_no_number():
    assert math.isnan(percentile([], 99))


def test_success_counts_each_kind_by_itself():
    seen = watched([6.0] * 3, {"light 429": 1, "upload closed": 3})
    assert seen.success == {"light": 0.75, "sync": 1.0, "upload": 0.25}


def test_a_kind_of_which_nothing_was_sent_was_not_served():
    assert watched([6.0], sync=()).success["sync"] == 0
    assert not watched([6.0], sync=()).served_all()


def test_a_p99_of_twice_the_unattacked_one_passes_and_more_does_not():
    passing, failing = watched([16.0] * 100), watched([16.1] * 100)
    assert faults(ATTACK, BASE, passing, {}, None, homeserver(), BOUND) == []
    assert faults(ATTACK, BASE, failing, {}, None, homeserver(), BOUND) == ["p99 16.1 > 16.0 ms"]


def test_one_request_that_was_not_served_is_a_fault():
    seen = watched([6.0] * 999, {"light 429": 1})
    assert faults(ATTACK, BASE, seen, {}, None, homeserver(), BOUND) == ["light 0.999"]


def test_where_no_light_request_was_served_the_p99_is_a_fault_too():
    seen = watched([], {"light no answer": 4})
    assert len(faults(ATTACK, BASE, seen, {}, None, homeserver(), BOUND)) == 2


def test_refused_attackers_are_no_fault_and_a_refused_crowd_is():
    seen, outcomes = watched([6.0]), {"200": 10, "429": 2}
    assert faults(ATTACK, BASE, seen, outcomes, None, homeserver(), BOUND) == []
    crowd = Row("crowd", "a crowd", beside="crowd")
    assert faults(crowd, BASE, seen, outcomes, None, homeserver(), BOUND) == ["crowd: 2 x 429"]


def test_a_limit_told_while_there_is_no_homeserver_is_a_fault_and_the_outage_is_none():
    row = Row("restart", "a restart", beside="restart")
    outage = {"crowd": {"502": 9, "200": 3}, "honest_failures": {"light 502": 4}}
    assert faults(row, BASE, watched([6.0]), {"200": 3}, outage, homeserver(), BOUND) == []
    outage = {"crowd": {"429": 2}, "honest_failures": {"light 429": 4}}
    assert faults(row, BASE, watched([6.0]), {"200": 3}, outage, homeserver(), BOUND) == [
        "6 x 429 while there was no homeserver"
    ]


def test_too_many_at_the_homeserver_is_a_fault_of_who_promised_a_bound():
    seen = watched([6.0])
    assert faults(ATTACK, BASE, seen, {}, None, homeserver(requests=17), BOUND) == [
        "17 requests at once > 16"
    ]
    assert faults(ATTACK, BASE, seen, {}, None, homeserver(syncs=33, lookups=17), BOUND) == [
        "33 syncs at once > 32",
        "17 lookups at once > 16",
    ]
    assert faults(ATTACK, BASE, seen, {}, None, homeserver(requests=300), None) == []


def test_bytes_of_an_upload_without_a_token_at_the_homeserver_are_a_fault_of_who_promised_none():
    through = homeserver(unconfirmed=3 << 19)
    assert faults(ATTACK, BASE, watched([6.0]), {}, None, through, BOUND) == [
        "1.5 MiB of unconfirmed uploads came through"
    ]
    assert faults(ATTACK, BASE, watched([6.0]), {}, None, through, None) == []


def test_held_requests_explain_an_excess_where_the_row_says_so():
    row = Row("left", "left", excess=12)
    assert faults(row, BASE, watched([6.0]), {}, None, homeserver(requests=28), BOUND) == []
    assert faults(row, BASE, watched([6.0]), {}, None, homeserver(requests=29), BOUND) != []


def test_with_32_greedy_clients_the_wait_may_be_one_service_of_theirs():
    row = next(row for row in ROWS if row.key == "greedy-32")
    assert allowed_ms(row, BASE) == BASE.p99_ms + 300


@pytest.mark.parametrize(
    "base",
    [watched([6.0] * 90 + [19.0] * 10), watched([6.0], late=[9.0]), watched([6.0], {"sync 502": 1})],
    ids=["uneven", "late", "not all served"],
)
def test_a_window_without_attack_that_was_uneven_late_or_failed_is_disturbed(base):
    assert disturbed(base, watched([6.0]))


def test_slow_answers_under_attack_are_no_disturbance_but_late_watches_are():
    assert not disturbed(BASE, watched([6.0] * 50 + [900.0] * 50))
    assert disturbed(BASE, watched([6.0], late=[40.0]))
