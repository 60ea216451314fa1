"""The process of attackers and crowds.

Child of the bench: told `{"do": "start"}` it begins the one it was made for, and answers once all of it have begun or some
seconds have passed; told `{"do": "report"}` it gives what they got since the last time.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from benchmarks.fairness import attacks, crowds
from benchmarks.fairness.addresses import SHARED_ADDRESS
from benchmarks.fairness.children import Message, answer, questions
from benchmarks.fairness.tally import Tally

_BEGIN_WITHIN_S = 6.0
_ATTACKS = {
    "slow-heads": attacks.slow_heads,
    "slow-bodies": attacks.slow_bodies,
    "tokenless-uploads": attacks.tokenless_uploads,
    "idle": attacks.idle_connections,
    "slow-readers": attacks.slow_readers,
    "abandoned": attacks.abandoned,
    "one-address": attacks.one_address,
    "one-account": attacks.one_account,
    "greedy-8": attacks.eight_greedy,
    "greedy-32": attacks.thirty_two_greedy,
    "long-polls": attacks.long_polls,
    "new-tokens": attacks.long_polls_of_new_tokens,
    "garbage": attacks.garbage_tokens,
    "pipelining": attacks.pipelining,
    "churn": attacks.churn,
    "stuck": attacks.stuck,
    "stuck-left": attacks.stuck_and_abandoned,
}
_CROWDS = {
    "app-starts": crowds.app_starts,
    "bridge": crowds.bridge,
    "restart": crowds.many_clients,
}
KEYS = ("none", *_ATTACKS, "same-address", *_CROWDS)


def _begin(settings: Message, tally: Tally) -> Coroutine[Any, Any, None] | None:
    key, port = settings["row"], settings["port"]
    if key == "same-address":
        return attacks.one_address(port, tally, SHARED_ADDRESS)
    if key in _ATTACKS:
        return _ATTACKS[key](port, tally)
    if key in _CROWDS:
        return _CROWDS[key](port, tally, settings["seconds"])
    return None


async def _serve(settings: Message) -> None:
    tally = Tally()
    attack = None
    answer({"ready": True})
    async for question in questions():
        if question["do"] == "start":
            begun = _begin(settings, tally)
            if begun is not None:
                gc.freeze()
                attack = asyncio.create_task(begun)
                attack.add_done_callback(_tell_failure)
                await asyncio.wait([asyncio.ensure_future(tally.began_all.wait())], timeout=_BEGIN_WITHIN_S)
            answer({"began": tally.began_all.is_set()})
        else:
            answer(tally.report())
    if attack is not None:
        attack.cancel()


def _tell_failure(attack: asyncio.Task[None]) -> None:
    """Write what ended an attack where the parent finds it."""
    if not attack.cancelled() and attack.exception() is not None:
        sys.stderr.write(f"error: the attack ended: {attack.exception()!r}\n")


if __name__ == "__main__":
    uvloop.run(_serve(json.loads(sys.argv[1])))
