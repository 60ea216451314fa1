import asyncio

import pytest

from proxy.downstream.ahead import Ahead


class Connection:
    """Has some requests ahead, each of which it serves, and asks for a turn for the next."""

    def __init__(self, ahead, served, number, requests, *, fails=False):
        self.ahead, self.served, self.number, self.requests, self.fails = (
            ahead,
            served,
            number,
            requests,
            fails,
        )

    def serve_ahead(self):
        if self.fails:
            raise ValueError("a fault")
        self.served.append(self.number)
        self.requests -= 1
        if self.requests:
            self.ahead.append(self)


@pytest.fixture
def run():
    """Run `tell(ahead, served)` in a loop; give what the loop complained of."""
    faults = []

    async def whole(tell):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
        await tell(Ahead(loop), [])

    def run(tell):
        asyncio.run(whole(tell))
        return faults

    return run


async def turns(number):
    for _ in range(number):
        await asyncio.sleep(0)


def test_connections_are_served_in_turn_a_few_in_each_of_the_loops(run):
    async def tell(ahead, served):
        for number in range(20):
            ahead.append(Connection(ahead, served, number, 2))
        assert served == []
        await turns(1)
        assert served == list(range(8))
        await turns(10)
        assert served == [*range(20), *range(20)]

    assert run(tell) == []


def test_an_error_in_one_stops_none_of_the_others(run):
    async def tell(ahead, served):
        ahead.append(Connection(ahead, served, 0, 1, fails=True))
        ahead.append(Connection(ahead, served, 1, 3))
        await turns(10)
        assert served == [1, 1, 1]
        ahead.append(Connection(ahead, served, 2, 1))
        await turns(2)
        assert served == [1, 1, 1, 2]

    assert [str(fault) for fault in run(tell)] == ["a fault"]
