from proxy.mechanisms.recent_maximum import RecentMaximum


def test_it_remembers_for_its_span_and_at_most_a_slot_longer():
    seen = RecentMaximum(3600.0, 0.0)
    seen.latest = 7.0
    assert seen.value(1.0) == 7.0
    assert seen.value(3600.0) == 7.0
    assert seen.value(3600.0 + 600.0) == 0.0


def test_the_greatest_of_several_slots_counts():
    seen = RecentMaximum(3600.0, 0.0)
    for minute, value in ((0, 3.0), (10, 9.0), (20, 5.0)):
        seen.value(60.0 * minute)
        seen.latest = max(seen.latest, value)
    assert seen.value(60.0 * 30) == 9.0
    assert seen.value(60.0 * 77) == 5.0


def test_what_was_written_long_before_anybody_looks_counts_as_just_ended():
    seen = RecentMaximum(3600.0, 0.0)
    seen.latest = 4.0
    assert seen.value(100_000.0) == 4.0
    assert seen.value(200_000.0) == 0.0
