"""Two gates that know nothing of each other, before one homeserver that both together can overload."""

from random import Random

import pytest
from virtual_world import Backfill, GatedSide, SharedHomeserver, World

HOUR_S = 3600.0
TOLERANCE = 0.06  # of the whole, either way, over five hours


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("power", "mean_work_s"), [(1.5, 8.0), (3.0, 20.0)])
def test_two_gates_come_to_an_even_share_however_they_begin(power, mean_work_s, seed):
    world = World()
    homeserver = SharedHomeserver(world, Random(seed), power, mean_work_s)
    first = GatedSide(world, homeserver)
    for number in range(4):
        Backfill(world, first, f"first {number}")
    world.run_until(HOUR_S)
    assert first.gate.statistics(world.now).limit >= 2, "it has the homeserver to itself"
    second = GatedSide(world, homeserver)
    for number in range(4):
        Backfill(world, second, f"second {number}")
    world.run_until(7 * HOUR_S)
    served = [sum(instant > 2 * HOUR_S for instant in side.served_at) for side in (first, second)]
    assert abs(served[1] / sum(served) - 0.5) <= TOLERANCE
    for side in (first, second):
        assert side.gate.totals.cuts >= 10, "by taking back, not by having room for both"
        assert side.gate.totals.growths >= 10
