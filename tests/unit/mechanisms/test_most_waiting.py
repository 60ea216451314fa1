from random import Random

from proxy.mechanisms.most_waiting import MostWaiting


def test_nobody_has_most_where_nobody_waits():
    assert MostWaiting().most() == (None, 0)


def test_the_one_with_most_is_found_whatever_came_and_went():
    waiting = MostWaiting()
    counts = {}
    random = Random(2)
    for _ in range(3_000):
        key = random.choice("abcde")
        if counts.get(key) and random.random() < 0.5:
            waiting.take(key)
            counts[key] -= 1
        else:
            waiting.add(key)
            counts[key] = counts.get(key, 0) + 1
        key, most = waiting.most()
        assert most == max(counts.values())
        assert not most or counts[key] == most
        assert len(waiting) == sum(map(bool, counts.values()))


def test_of_equals_the_one_who_got_there_last_is_named():
    waiting = MostWaiting()
    for key in "abba":
        waiting.add(key)
    assert waiting.most() == ("a", 2)
