from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.observability.heavy_hitters import HeavyHitters

NAMES = st.text("abcdefgh", min_size=1, max_size=1)


@given(st.integers(1, 6), st.lists(NAMES, max_size=200))
def test_counts_are_off_by_their_error_at_most_and_nobody_frequent_is_missing(room, events):
    book = HeavyHitters(room)
    for name in events:
        book.add(name)
    true = Counter(events)
    listed = book.top(room)
    assert len(listed) <= room
    for hitter in listed:
        assert hitter.times - hitter.error <= true[hitter.name] <= hitter.times
        assert hitter.error <= len(events) / room
    assert {name for name, times in true.items() if times > len(events) / room} <= {h.name for h in listed}
    assert [h.times for h in listed] == sorted((h.times for h in listed), reverse=True)


def test_counts_are_exact_while_there_is_room():
    book = HeavyHitters(3)
    for name in "abcabb":
        book.add(name)
    assert [(h.name, h.times, h.error) for h in book.top(2)] == [("b", 3, 0), ("a", 2, 0)]
    assert [h.name for h in book.top(9)] == ["b", "a", "c"]
