from random import Random

import pytest

from proxy.simulation.waits import Waits


def test_quantiles_are_right_to_half_a_percent():
    random = Random(3)
    values = sorted(random.expovariate(3) for _ in range(2_000))
    waits = Waits()
    for value in values:
        waits.add(value)
    for fraction in (0.01, 0.5, 0.99):
        exact = values[int(fraction * len(values)) - 1]
        assert exact <= waits.quantile_s(fraction) <= exact * 1.0051
    assert waits.quantile_s(1.0) == values[-1] == waits.longest_s
    assert waits.total_s == pytest.approx(sum(values))


def test_no_wait_is_none():
    waits = Waits()
    waits.add(0.0)
    waits.add(1.0)
    assert waits.quantile_s(0.5) == 0.0
    assert Waits().quantile_s(0.99) == 0.0


def test_memory_does_not_grow_with_what_is_counted():
    waits = Waits()
    random = Random(4)
    for _ in range(20_000):
        waits.add(random.uniform(0, 900))
    assert len(waits._buckets) < 4_200
