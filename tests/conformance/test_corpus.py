"""The corpus itself: large enough, each case once, each with its reason, and nothing that the wire tests play already."""

from collections import Counter

import requests_passed
import requests_refused
import responses
from corpus import ANSWERS, REQUESTS, cases
from splits import cut_bytes


def test_there_are_as_many_cases_as_promised():
    assert len(cases(REQUESTS)) >= 919
    assert len(cases(ANSWERS)) >= 258
    assert sum(bool(cut_bytes(case)) for case in cases(REQUESTS)) >= 500
    assert sum(bool(cut_bytes(case)) for case in cases(ANSWERS)) >= 150


def test_every_case_has_a_name_and_a_source():
    names = Counter(case.id for kind in (REQUESTS, ANSWERS) for case in cases(kind))
    assert [name for name, times in names.items() if times > 1] == []
    assert all("§" in case.source for kind in (REQUESTS, ANSWERS) for case in cases(kind))


def answered(dialogue):
    """Give what makes a case: all that either side sends."""
    return (dialogue.sent, dialogue.answers)


def test_no_request_is_played_twice():
    written = Counter(answered(case.dialogue) for case in cases(REQUESTS))
    played = {dialogue.sent for dialogue in requests_passed.DIALOGUES + requests_refused.DIALOGUES}
    twice = [case.id for case in cases(REQUESTS) if written[answered(case.dialogue)] > 1]
    assert [case.id for case in cases(REQUESTS) if case.dialogue.sent in played] + twice == []


def test_no_answer_is_played_twice():
    written = Counter(answered(case.dialogue) for case in cases(ANSWERS))
    played = {answered(dialogue) for dialogue in responses.DIALOGUES}
    twice = [case.id for case in cases(ANSWERS) if written[answered(case.dialogue)] > 1]
    assert [case.id for case in cases(ANSWERS) if answered(case.dialogue) in played] + twice == []
