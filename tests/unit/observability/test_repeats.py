from proxy.observability.repeats import ALL, EACH, KEYS, PERIOD_S, Repeats


def test_the_first_few_of_a_key_are_told_and_the_rest_is_summed_at_the_end_of_the_period():
    repeats = Repeats(0.0)
    assert [repeats.may_tell("a") for _ in range(EACH + 2)] == [True] * EACH + [False] * 2
    assert repeats.may_tell("b")
    assert repeats.due(PERIOD_S - 0.1) == []
    assert [tuple(told) for told in repeats.due(PERIOD_S)] == [("a", 2)]
    assert repeats.may_tell("a")
    assert repeats.due(2 * PERIOD_S) == []


def test_lines_and_memory_are_bounded_whoever_comes():
    repeats = Repeats(0.0)
    told = sum(repeats.may_tell(number) for number in range(5000))
    assert told == ALL
    sums = repeats.due(PERIOD_S)
    assert len(sums) == KEYS + 1
    assert sums[-1].key is None
    assert told + sum(one.times for one in sums) == 5000
