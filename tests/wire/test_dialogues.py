"""Each dialogue, with all bytes of both sides whole, one at a time, and cut at random."""

import pytest
import requests_passed
import requests_refused
import responses
from harness import BYTES, CUTS, WHOLE

PARTS = {"refused": requests_refused, "passed": requests_passed, "answer": responses}
DIALOGUES = {
    f"{name}: {dialogue.name}": dialogue for name, part in PARTS.items() for dialogue in part.DIALOGUES
}


@pytest.mark.parametrize(
    "dialogue", [pytest.param(dialogue, id=name) for name, dialogue in DIALOGUES.items()]
)
def test_the_dialogue_goes_as_written_however_its_bytes_are_cut(world, loop, dialogue):
    for cut in CUTS:
        loop.run_until_complete(world.play(dialogue, cut))


def test_every_dialogue_has_a_name_of_its_own():
    assert len(DIALOGUES) == sum(len(part.DIALOGUES) for part in PARTS.values())


def test_there_are_enough_of_them_to_mean_something():
    assert len(requests_refused.DIALOGUES) + len(requests_passed.DIALOGUES) >= 120
    assert len(responses.DIALOGUES) >= 40
    assert {WHOLE, BYTES} < set(CUTS)
