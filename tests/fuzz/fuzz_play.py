"""Play any bytes of either side through the real data path, and wait until nothing moves any more."""

from dataclasses import dataclass

from harness import WHOLE, Answer, Cut, HomeserverLine, Line, Request, World, turn

_STILL_TURNS = 4
_MAX_TURNS = 2000


@dataclass
class Outcome:
    """What the homeserver got, what the client got, and how the client's connection ended, if it did."""

    requests: list[Request]
    received: bytes
    ended: str | None


def cut_of(seed: int) -> Cut:
    """Give a cut at random, or none."""
    return Cut("at random", seed) if seed else WHOLE


async def play(
    world: World,
    sent: tuple[bytes, ...],
    answers: tuple[Answer, ...],
    *,
    sent_cut: Cut = WHOLE,
    answers_cut: Cut = WHOLE,
) -> Outcome:
    """Send these pieces, each once nothing moves any more; whoever still waits then waits for what will not come."""
    script = world.homeserver.begin(answers, answers_cut)
    line = await world.connect()
    try:
        for piece in sent:
            await line.send(piece, sent_cut)
            await _until_still(world, line)
        ended, received = line.ended, bytes(line.received)
    finally:
        line.transport.abort()
        await world.calm()
    return Outcome(script.requests, received, ended)


async def _until_still(world: World, line: Line) -> None:
    still, last = 0, None
    for _ in range(_MAX_TURNS):
        await turn()
        lines: list[HomeserverLine] = world.homeserver.lines
        now = (
            len(line.received),
            line.ended,
            len(world.homeserver.script.requests),
            sum(len(one.received) for one in lines),
        )
        still = still + 1 if now == last and not world.homeserver.busy else 0
        if still == _STILL_TURNS:
            return
        last = now
    raise AssertionError("it goes on for ever")
