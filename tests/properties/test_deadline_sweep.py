from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.http1.deadlines import NEVER, DeadlineSweep


class Owner:
    def __init__(self, deadline_at):
        self.deadline_at = deadline_at
        self.sweep_slot = -1


class Sweeping(RuleBasedStateMachine):
    """Owners come, go and re-arm between the turns of a sweep."""

    def __init__(self):
        super().__init__()
        self.sweep = DeadlineSweep(4)
        self.owners = []
        self.now = 0.0

    @rule(seconds=st.one_of(st.floats(0, 5), st.just(NEVER)))
    def add(self, seconds):
        owner = Owner(self.now + seconds)
        self.sweep.add(owner)
        self.owners.append(owner)

    @rule(which=st.integers(0), twice=st.booleans())
    def remove(self, which, twice):
        if self.owners:
            owner = self.owners.pop(which % len(self.owners))
            self.sweep.remove(owner)
            if twice:
                self.sweep.remove(owner)

    @rule(which=st.integers(0), seconds=st.floats(0, 5))
    def re_arm(self, which, seconds):
        if self.owners:
            self.owners[which % len(self.owners)].deadline_at = self.now + seconds

    @rule(seconds=st.floats(0, 3))
    def take_a_turn(self, seconds):
        self.now += seconds
        for owner in self.sweep.passed(self.now):
            assert owner in self.owners
            assert owner.deadline_at <= self.now

    @invariant()
    def nobody_is_lost(self):
        assert len(self.sweep) == len(self.owners)
        assert set(self.sweep) == set(self.owners)
        assert all(list(self.sweep)[owner.sweep_slot] is owner for owner in self.owners)


Sweeping.TestCase.settings = settings(max_examples=60, deadline=None)
TestSweeping = Sweeping.TestCase


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 8), st.integers(0, 10))
def test_a_deadline_that_passed_is_found_within_a_round(passed, turns_per_round, turns_before):
    sweep = DeadlineSweep(turns_per_round)
    owners = [Owner(1.0 if late else NEVER) for late in passed]
    for owner in owners:
        sweep.add(owner)
    for _ in range(turns_before):
        sweep.passed(0.0)
    found = set()
    for _ in range(turns_per_round + 1):  # a round may begin in the middle
        found.update(sweep.passed(2.0))
    assert found == {owner for owner in owners if owner.deadline_at == 1.0}


@given(st.data(), st.integers(1, 40))
def test_a_deadline_that_passed_is_found_within_two_rounds_though_others_leave_meanwhile(data, size):
    sweep = DeadlineSweep(4)
    owners = [Owner(NEVER) for _ in range(size)]
    for owner in owners:
        sweep.add(owner)
    for _ in range(data.draw(st.integers(0, 6))):
        sweep.passed(0.0)
    late = owners.pop(data.draw(st.integers(0, size - 1)))
    late.deadline_at = 1.0
    for _ in range(8):
        if late in sweep.passed(2.0):
            return
        for _ in range(data.draw(st.integers(0, min(3, len(owners))))):
            sweep.remove(owners.pop(data.draw(st.integers(0, len(owners) - 1))))
    raise AssertionError("not found")
