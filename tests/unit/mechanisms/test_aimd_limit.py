from proxy.mechanisms.aimd_limit import AimdLimit


def test_it_grows_by_one_after_so_many_fast_successes_since_it_last_changed():
    limit = AimdLimit(2, 4, 3, 0.0)
    grown = [limit.succeeded_fast(0) for _ in range(7)]
    assert grown == [False, False, True, False, False, True, False]
    assert limit.limit == 4


def test_at_its_maximum_it_stays_and_counts_nothing_up():
    limit = AimdLimit(4, 4, 1, 0.0)
    assert not limit.succeeded_fast(0)
    assert limit.fast_successes == 0


def test_a_failure_halves_rounding_down_to_zero_or_to_the_floor():
    limit = AimdLimit(5, 8, 10, 0.0)
    seen = []
    for now in range(1, 5):
        limit.failed(limit.era, now)
        seen.append(limit.limit)
    assert seen == [2, 1, 0, 0]
    limit = AimdLimit(5, 8, 10, 0.0)
    assert [limit.failed(limit.era, now, floor=1) for now in range(1, 5)] == [True, True, False, False]
    assert limit.limit == 1


def test_what_started_before_a_cut_neither_cuts_nor_grows():
    limit = AimdLimit(8, 8, 1, 0.0)
    before = limit.era
    assert limit.failed(before, 1.0)
    assert not limit.failed(before, 2.0)
    assert not limit.succeeded_fast(before)
    assert limit.limit == 4


def test_a_failure_that_changes_nothing_begins_no_era():
    limit = AimdLimit(1, 8, 1, 0.0)
    assert not limit.failed(0, 1.0, floor=1)
    assert (limit.era, limit.era_began_at) == (0, 0.0)


def test_growing_begins_no_era():
    limit = AimdLimit(1, 8, 1, 0.0)
    limit.succeeded_fast(0)
    assert limit.failed(0, 1.0)


def test_an_instant_tells_the_era_of_what_started_then():
    limit = AimdLimit(8, 8, 1, 0.0)
    limit.failed(limit.era, 10.0)
    assert limit.era_of(10.1) == limit.era
    assert limit.era_of(10.0) != limit.era, "in the moment of the cut it may have been the same burst"
    assert limit.era_of(9.0) != limit.era


def test_a_lower_maximum_brings_the_limit_down_and_a_higher_one_does_not_raise_it():
    limit = AimdLimit(4, 4, 1, 0.0)
    assert limit.bound(2)
    assert limit.limit == 2
    assert not limit.bound(8)
    assert limit.limit == 2
