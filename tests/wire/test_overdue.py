"""Clients' deadlines that pass together."""

import asyncio

import uvloop
from harness import World, until

from proxy.http1.deadlines import NEVER

TURNS, MANY = 4, 400
AT_ONCE = 32


class Client:
    """What the application knows of a client in its sweep: a deadline that passed long ago."""

    deadline_at = 0.0
    sweep_slot = -1

    def __init__(self, ended, sweep):
        self._ended = ended
        self._sweep = sweep

    def deadline_passed(self, _):
        self.deadline_at = NEVER
        self._sweep.remove(self)
        self._ended.append(self)


def test_hundreds_that_pass_together_are_ended_a_few_at_a_time_however_many_turns_come_meanwhile():
    async def tell():
        world = World()
        await world.start()
        ended, sweep = [], world.application.listener.connections
        for _ in range(MANY):
            sweep.add(Client(ended, sweep))
        try:
            for _ in range(TURNS):
                world.application._take_turn()
            assert len(ended) == AT_ONCE
            await until(lambda: len(ended) == MANY)
            assert world.faults == []
        finally:
            for client in list(sweep):
                sweep.remove(client)
            await world.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(tell())
