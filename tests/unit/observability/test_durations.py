from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.observability.durations import BOUNDS_S, Durations, Histogram

DURATIONS = st.one_of(st.sampled_from([0.0, *BOUNDS_S]), st.floats(0, 2000))


@given(st.lists(st.lists(DURATIONS)))
def test_each_duration_falls_into_the_first_bucket_it_does_not_exceed_however_often_they_are_settled(batches):
    durations = Durations(["vital", "requests"])
    counts = [0] * (len(BOUNDS_S) + 1)
    for batch in batches:
        durations.services_s[1] += batch
        durations.settle()
        for duration_s in batch:
            counts[bisect_left(BOUNDS_S, duration_s)] += 1
    seen = durations.statistics()
    assert seen.services["requests"].counts == tuple(counts)
    assert seen.services["requests"].total_s == pytest.approx(sum(map(sum, batches)))
    assert seen.services["vital"].count == seen.waits["requests"].count == 0


def test_what_is_not_settled_yet_is_in_the_picture():
    durations = Durations(["vital"])
    durations.waits_s[0].append(0.0)
    assert durations.statistics().waits["vital"].counts[0] == 1
    assert durations.waits_s == [[]]


def test_a_quantile_is_the_bound_that_so_many_do_not_exceed():
    counts = [0] * (len(BOUNDS_S) + 1)
    assert Histogram(tuple(counts), 0.0).quantile_s(0.5) is None
    counts[3], counts[9], counts[-1] = 98, 1, 1
    histogram = Histogram(tuple(counts), 1.0)
    assert histogram.quantile_s(0.5) == BOUNDS_S[3]
    assert histogram.quantile_s(0.99) == BOUNDS_S[9]
    assert histogram.quantile_s(1) == float("inf")
