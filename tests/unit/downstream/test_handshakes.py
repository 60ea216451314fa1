import asyncio

from proxy.downstream.admission import TurnedAway
from proxy.downstream.handshakes import Handshakes
from proxy.identity.client_key import ClientKeys
from proxy.identity.networks import Networks

KEYS = ClientKeys(trusted_proxies=Networks(("10.0.0.0/8",)))


class Layer:
    def __init__(self, handshakes, log):
        self.line_key = None
        self.given_up = False
        self._handshakes = handshakes
        self._log = log

    def begin(self):
        self._log.append(self)

    def give_up(self):
        self.given_up = True
        self._handshakes.over(self)


def run(tell):
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(tell(loop))
    finally:
        loop.close()


async def turns(number):
    for _ in range(number):
        await asyncio.sleep(0)


def test_one_handshake_begins_in_a_turn_of_the_loop():
    async def tell(loop):
        log, begun_by_turn = [], []
        handshakes = Handshakes(loop, TurnedAway())
        for number in range(20):
            handshakes.arrive(Layer(handshakes, log), KEYS.resolve(f"192.0.2.{number}"))
        while len(log) < 20:
            before = len(log)
            await asyncio.sleep(0)
            begun_by_turn.append(len(log) - before)
        assert set(begun_by_turn) <= {0, 1}
        assert handshakes.begun_total == 20

    run(tell)


def test_one_that_fails_to_begin_holds_nobody_up():
    async def tell(loop):
        log, faults = [], []
        loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
        handshakes = Handshakes(loop, TurnedAway())
        broken = Layer(handshakes, log)
        broken.begin = lambda: 1 / 0
        handshakes.arrive(broken, KEYS.resolve("192.0.2.1"))
        handshakes.arrive(Layer(handshakes, log), KEYS.resolve("192.0.2.2"))
        await turns(5)
        assert len(log) == 1
        assert [type(fault) for fault in faults] == [ZeroDivisionError]

    run(tell)


def test_places_are_taken_only_from_the_impatient_and_only_while_others_wait():
    async def tell(loop):
        log = []
        turned_away = TurnedAway()
        handshakes = Handshakes(loop, turned_away)
        for number in range(64):
            handshakes.arrive(Layer(handshakes, log), KEYS.resolve(f"192.0.2.{number // 4}"))
        await turns(64)
        handshakes.turn(1e12)
        assert not any(layer.given_up for layer in log)
        handshakes.arrive(Layer(handshakes, log), KEYS.resolve("198.51.100.1"))
        handshakes.arrive(Layer(handshakes, log), KEYS.resolve("198.51.100.2"))
        handshakes.turn(0.0)
        assert not any(layer.given_up for layer in log)
        handshakes.turn(1e12)
        assert [layer.given_up for layer in log] == [True] * 2 + [False] * 62
        await turns(2)
        assert len(log) == 66
        assert turned_away.totals["handshake_place"] == 2

    run(tell)
