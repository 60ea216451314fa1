"""Requests of any kind, good, damaged and one behind another: what goes on means one thing to everybody.

What is held:
    each request that reaches the homeserver is whole, and h11 and llhttp read it as one request, the same;
    it is what h11 reads in the client's bytes at that place, so no body became a request and none was lost;
    the client gets one answer for each, and at most one refusal behind them, after which its connection is closed.
"""

import re

import pytest
from fuzz_bytes import EDITS, damaged, requests
from fuzz_play import cut_of, play
from harness import OK, Answer
from hypothesis import event, given, settings
from hypothesis import strategies as st
from second_readers import Unread, h11_requests, llhttp_request

FUZZ = settings.get_profile("fuzz")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://[^/?]*(.*)")


def origin_form(method, target):
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        return target
    rest = absolute[1]
    return rest if rest[:1] == b"/" else b"/" + rest if rest or method != b"OPTIONS" else b"*"


def read_by_h11(sent):
    """Give what h11 reads, and whether that is all: it reads nothing behind HTTP/1.0, kept alive or not."""
    try:
        return h11_requests(sent.removeprefix(b"\r\n")), b"HTTP/1.0" not in sent
    except Unread as unread:
        return unread.messages, False


@settings(FUZZ)
@given(st.lists(requests(), min_size=1, max_size=3).map(b"".join), EDITS, st.integers(0, 1000))
def test_what_goes_on_is_one_request_to_everybody(world, loop, good, edits, seed):
    sent = damaged(good, edits)
    outcome = loop.run_until_complete(play(world, (sent,), (Answer(OK),) * 8, sent_cut=cut_of(seed)))
    event(f"{len(outcome.requests)} go on")
    for request in outcome.requests:
        assert request.whole, "a part of a request"
        by_h11, by_llhttp = h11_requests(request.data), llhttp_request(request.data)
        assert len(by_h11) == len(by_llhttp) == 1
        assert by_h11 == by_llhttp
        assert by_h11[0].whole
    got = [h11_requests(request.data)[0] for request in outcome.requests]
    meant, all_taken = read_by_h11(sent)
    for one, other in zip(got, [message for message in meant if message.whole], strict=False):
        method, target = other.start
        assert one.start == (method, origin_form(method, target))
        assert one.body == other.body
    if all_taken:
        assert len(got) <= len(meant)
    statuses = re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", outcome.received)
    assert statuses.count(b"200") == len(got)
    others = [status for status in statuses if status not in (b"200", b"100")]
    assert len(others) <= 1
    if others:
        assert statuses[-1] == others[0]
        assert outcome.ended == "eof"
    event(f"refused: {others[:1]}")
