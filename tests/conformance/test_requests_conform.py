"""Every request of the corpus through the real data path: whole, byte by byte, and short ones cut at every place."""

import pytest
from corpus import REQUESTS, cases
from harness import BYTES, WHOLE
from splits import cut_bytes, play_every_split

CASES = cases(REQUESTS)
SPLIT = [case for case in CASES if cut_bytes(case)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_a_request_comes_to_what_is_written_whole_and_byte_by_byte(world, loop, case):
    for name, cut in (("whole", WHOLE), ("bytes", BYTES)):
        if name in case.cuts:
            loop.run_until_complete(world.play(case.dialogue, cut))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in SPLIT])
def test_a_short_request_comes_to_the_same_wherever_it_is_cut(world, loop, case):
    loop.run_until_complete(play_every_split(world, case))
