"""What passes is read by h11 and llhttp as one and the same."""

import pytest
from corpus import ANSWERS, REQUESTS, cases
from harness import WHOLE
from second_readers import h11_answers, h11_requests, llhttp_answers, llhttp_request

PASSED = [case for case in cases(REQUESTS) if case.dialogue.got]
#: An answer that reached its client whole, and whose method llhttp need not know.
ANSWERED = [
    case
    for case in cases(ANSWERS)
    if case.dialogue.refusal is None
    and case.dialogue.closed != "reset"
    and case.dialogue.sent[0].startswith(b"GET")
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in PASSED])
def test_each_request_that_goes_on_is_one_request_to_both(world, loop, case):
    for request in loop.run_until_complete(world.play(case.dialogue, WHOLE)):
        (by_h11,), (by_llhttp,) = h11_requests(request.data), llhttp_request(request.data)
        assert by_h11 == by_llhttp
        assert by_h11.whole


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in ANSWERED])
def test_each_answer_that_passes_is_read_by_both_in_the_same_way(case):
    client, ended = case.dialogue.client, bool(case.dialogue.closed)
    by_h11 = h11_answers(client, [b"GET"], ended=ended) if not _breaks_off(case) else None
    by_llhttp = llhttp_answers(client, ended=ended)
    if by_h11 is not None:
        assert by_h11 == by_llhttp
        assert by_h11[-1].whole
    else:
        assert not by_llhttp[-1].whole


def _breaks_off(case):
    return "break" in case.group
