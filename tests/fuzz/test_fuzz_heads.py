"""Heads and chunked bodies by the thousand, without sockets: what our readers take, h11 and llhttp take for the same.

Each example is a seed, from which a batch of messages is damaged; a failure names the message, which is then a case of its own.
"""

import random

import pytest
from agreement import agree_on_answer_head, agree_on_chunks, agree_on_request_head, whole_head
from fuzz_bytes import GOOD_ANSWERS, GOOD_BODIES, GOOD_HEADS, PIECES, damaged
from hypothesis import given, settings
from hypothesis import strategies as st

FUZZ = settings.get_profile("fuzz")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
BATCH = 40
SEEDS = st.integers(0, 2**48)
HURTS = [*(bytes([byte]) for byte in range(256)), *PIECES]


def batch(seed, bases):
    """Give a batch of damaged messages."""
    chance = random.Random(seed)
    for _ in range(BATCH):
        edits = [
            (chance.random(), chance.choice((0, 0, 1, 1, 2, 4)), chance.choice((b"", *HURTS)))
            for _ in range(chance.randint(1, 4))
        ]
        yield damaged(chance.choice(bases), edits)


@settings(FUZZ)
@given(SEEDS)
def test_a_request_head_that_goes_on_says_the_same_to_everybody(world, seed):
    for head in filter(None, map(whole_head, batch(seed, GOOD_HEADS))):
        agree_on_request_head(world, head)


@settings(FUZZ)
@given(SEEDS)
def test_an_answers_head_that_passes_says_the_same_to_everybody(seed):
    for head in filter(None, map(whole_head, batch(seed, GOOD_ANSWERS))):
        agree_on_answer_head(head)


@settings(FUZZ)
@given(SEEDS)
def test_chunks_that_go_on_are_the_same_bytes_to_everybody(seed):
    chance = random.Random(seed)
    for data in batch(seed, GOOD_BODIES):
        most = len(data)
        agree_on_chunks(data, lambda most=most: chance.randint(1, most))
