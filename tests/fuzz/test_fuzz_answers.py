"""Answers of any kind, good and damaged, from a homeserver that then closes: all of them reach the client, or it can tell.

What is held:
    h11 and llhttp read what the client got as the same answers, up to where it broke off;
    a second request on the same connection gets its own answer, byte for byte, and nothing before it or behind;
    an answer that the client takes for whole is the one that h11 reads in the homeserver's bytes.
"""

import pytest
from fuzz_bytes import EDITS, answers, damaged
from fuzz_play import cut_of, play
from harness import Answer
from hypothesis import event, given, settings
from hypothesis import strategies as st
from second_readers import Unread, h11_answers, llhttp_answers

FUZZ = settings.get_profile("fuzz")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
OWN = b"HTTP/1.1 200 OK\r\nX-Own: second\r\nContent-Length: 3\r\n\r\nown"


def finals(messages):
    return [message for message in messages if message.start[0] >= 200]


def read_by_h11(data, methods, *, ended):
    """Give what h11 reads, and why it reads no further."""
    try:
        return h11_answers(data, methods, ended=ended), None
    except Unread as unread:
        return unread.messages, str(unread)


@settings(FUZZ)
@given(
    answers(),
    EDITS,
    st.sampled_from([b"GET", b"GET", b"PUT", b"HEAD"]),
    st.integers(0, 1000),
)
def test_an_answer_is_taken_by_everybody_for_the_same(world, loop, good, edits, method, seed):
    sent = damaged(good, edits)
    asked = (b"%s /x HTTP/1.1\r\nHost: a\r\n\r\n" % method, b"POST /y HTTP/1.1\r\nHost: a\r\n\r\n")
    script = (Answer(sent, then="close"), Answer(OWN))
    outcome = loop.run_until_complete(play(world, asked, script, answers_cut=cut_of(seed)))
    assert [request.whole for request in outcome.requests[:1]] == [True]
    methods, ended = [method, b"POST"], outcome.ended is not None
    received = outcome.received
    got, why = read_by_h11(received, methods, ended=ended)
    broken_off = why is not None
    assert not broken_off or "without sending complete message body" in why
    event("broken off" if broken_off else f"{finals(got)[0].start[0]}")
    if method != b"HEAD":
        by_llhttp = llhttp_answers(received, ended=ended)
        assert got == by_llhttp
    if broken_off:
        assert ended
        return
    first = finals(got)[0]
    if not ended:
        assert received.endswith(OWN), "the second request has another answer"
        assert len(finals(got)) == 2
    if not any(name == b"fairgate-reason" for name, _ in first.fields) and outcome.ended != "reset":
        meant = finals(read_by_h11(sent, [method], ended=True)[0])
        if meant:
            assert first.start == meant[0].start
            assert first.body == meant[0].body
