"""A short case at each place where its bytes can be cut in two, over as few connections as it allows.

The bytes that are cut are the client's for a request, the homeserver's for an answer. What comes of it must not depend on
the cut: the same dialogue is held against each.
"""

from collections.abc import Iterator

from corpus import REQUESTS, Case
from harness import WHOLE, Line, World, marked, refusal_in, until

MAX_BYTES = 60


class CutAt:
    """Two pieces, cut at one place; what is shorter comes whole."""

    name = "in two"

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self, data: bytes) -> Iterator[bytes]:
        return (piece for piece in (data[: self._at], data[self._at :]) if piece)


def cut_bytes(case: Case) -> bytes:
    """Give the bytes that are cut; none where a case is not one piece, or long."""
    dialogue = case.dialogue
    if len(dialogue.sent) != 1 or not isinstance(dialogue.sent[0], bytes) or "splits" not in case.cuts:
        return b""
    data = dialogue.sent[0] if case.kind == REQUESTS else dialogue.answers[0].data
    return data if len(data) <= MAX_BYTES else b""


async def play_every_split(world: World, case: Case) -> None:
    """Play it once for each place to cut at."""
    dialogue = case.dialogue
    line: Line | None = None
    script = world.homeserver.begin(())
    try:
        for at in range(1, len(cut_bytes(case))):
            cut = CutAt(at)
            script.answers[:] = dialogue.answers
            script.cut = WHOLE if case.kind == REQUESTS else cut
            if line is None:
                line = await world.connect()
            await world._speak(line, dialogue, cut if case.kind == REQUESTS else WHOLE)
            await until(lambda: not world.homeserver.busy)
            _check(line, case, at)
            requests = [request for request in script.requests if request.data]
            assert tuple(marked(request.data) for request in requests) == dialogue.got, f"cut at {at}"
            script.requests.clear()
            line.received.clear()
            if dialogue.closed:
                line.transport.abort()
                line = None
    finally:
        if line is not None:
            line.transport.abort()
        await world.calm()


def _check(line: Line, case: Case, at: int) -> None:
    dialogue, received = case.dialogue, bytes(line.received)
    if dialogue.refusal is None:
        assert received == dialogue.client, f"cut at {at}"
    else:
        assert received.startswith(dialogue.client), f"cut at {at}"
        assert refusal_in(received[len(dialogue.client) :]) == dialogue.refusal, f"cut at {at}"
    assert (line.ended or "") == dialogue.closed, f"cut at {at}"
