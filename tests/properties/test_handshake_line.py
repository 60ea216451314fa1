"""Whose handshake begins next, held against a model of plain lists."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.http1.handshake_line import HandshakeLine

TOTAL, PER_ADDRESS = 5, 2
KEYS = st.sampled_from("abcd")
PROXY = "d"  # not capped


class Handshaking(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.line = HandshakeLine(TOTAL, PER_ADDRESS)
        self.waiting = {key: [] for key in "abcd"}
        self.under_way = []
        self.turns = []
        self.number = 0

    def limit(self, key):
        return TOTAL if key == PROXY else PER_ADDRESS

    def settle(self):
        for key in "abcd":
            open_now = sum(one[0] == key for one, _ in self.under_way)
            may = self.waiting[key] and open_now < self.limit(key)
            if may and key not in self.turns:
                self.turns.append(key)
            if not may and key in self.turns:
                self.turns.remove(key)

    @rule(key=KEYS)
    def one_comes(self, key):
        self.number += 1
        one = (key, self.number)
        self.line.arrive(key, one, capped=key != PROXY)
        self.waiting[key].append(one)
        self.settle()

    @rule()
    def the_next_begins(self):
        wanted = None
        if self.turns and len(self.under_way) < TOTAL:
            key = self.turns.pop(0)
            wanted = self.waiting[key].pop(0)
            self.under_way.append((wanted, self.number))
        self.settle()
        assert self.line.may_begin == (wanted is not None)
        assert self.line.begin(self.number) == wanted

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), twice=st.booleans())
    def one_is_done(self, data, twice):
        entry = data.draw(st.sampled_from(self.under_way))
        self.under_way.remove(entry)
        for _ in range(1 + twice):
            self.line.leave(entry[0][0], entry[0])
        self.settle()

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def one_waits_no_longer(self, data):
        one = data.draw(st.sampled_from([one for ones in self.waiting.values() for one in ones]))
        self.waiting[one[0]].remove(one)
        self.line.leave(*[one[0], one])
        self.settle()

    @invariant()
    def the_counts_agree(self):
        assert self.line.under_way == len(self.under_way) <= TOTAL
        assert self.line.waiting == sum(map(len, self.waiting.values()))
        for key in "abc":
            assert sum(one[0] == key for one, _ in self.under_way) <= PER_ADDRESS

    @invariant()
    def only_who_lets_others_wait_has_to_yield(self):
        before = self.number
        longest = self.under_way[: len(self.turns)] if len(self.under_way) == TOTAL else []
        assert self.line.yielding(before) == [one for one, began_at in longest if began_at < before]

    @invariant()
    def nothing_is_kept_of_who_is_gone(self):
        here = {key for key in "abcd" if self.waiting[key]} | {one[0] for one, _ in self.under_way}
        assert set(self.line._addresses) == here
        assert list(self.line._turns) == self.turns


TestHandshaking = Handshaking.TestCase
TestHandshaking.settings = settings(max_examples=60, stateful_step_count=40)


def test_an_address_with_a_thousand_waits_behind_itself():
    line = HandshakeLine(64, 4)
    for number in range(1000):
        line.arrive("many", ("many", number))
    line.arrive("one", ("one", 0))
    begun = [line.begin(0.0) for _ in range(5)]
    assert ("one", 0) in begun[:2]
    assert line.begin(0.0) is None
