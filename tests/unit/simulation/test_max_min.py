import pytest

from proxy.simulation.max_min import Demand, allocation

GREEDY = float("inf")


def fair(demands, workers=16, cap=4.0, address_cap=14.0):
    return allocation([Demand(*demand) for demand in demands], workers, cap, address_cap)


def test_who_asks_little_gets_it_and_the_rest_is_split_evenly():
    given = fair([("a", "1", 1.0), *[(f"g{i}", f"x{i}", GREEDY) for i in range(5)]])
    assert given["a"] == 1.0
    assert given["g0"] == pytest.approx(3.0)


def test_nobody_gets_more_than_the_cap():
    assert fair([("a", "1", GREEDY), ("b", "2", GREEDY)]) == {"a": 4.0, "b": 4.0}


def test_an_address_counts_as_at_most_eight_accounts():
    given = fair(
        [("alone", "1", GREEDY), *[(f"g{i}", "nat", GREEDY) for i in range(64)]], workers=9, address_cap=8.0
    )
    assert given["alone"] == pytest.approx(1.0, rel=1e-6)
    assert given["g3"] == pytest.approx(8 / 64, rel=1e-6)


def test_an_address_holds_no_more_than_its_cap():
    given = fair([(f"g{i}", "nat", GREEDY) for i in range(8)])
    assert sum(given.values()) == pytest.approx(14.0)
