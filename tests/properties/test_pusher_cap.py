from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.matrix.pusher_request import PusherRequest, key_of
from proxy.policies.pusher_cap import PusherCap, PusherPermit, PusherVerdict

WHICH = st.integers(0)
CAP = 2
PASS, LIST, WAIT, REFUSE = PusherVerdict


class Registering(RuleBasedStateMachine):
    """A homeserver of our own with two accounts, and requests at every stage between asking and its answer."""

    def __init__(self):
        super().__init__()
        self.cap = PusherCap(CAP)
        self.pushers = {"@a": set(), "@b": set()}
        self.lines = {"@a": [], "@b": []}
        self.to_list = []
        self.sent = []
        self.deleting = []

    def pick(self, permits, which):
        return permits.pop(which % len(permits))

    def end(self, permit, *, succeeded):
        turn = self.cap.end(permit, succeeded=succeeded)
        line = self.lines[permit.account]
        had_turn = line[0] is permit
        line.remove(permit)
        assert turn is (line[0] if had_turn and line else None)
        if turn is not None:
            self.to_list.append(turn)
        assert self.cap.end(permit, succeeded=False) is None

    @rule(account=st.sampled_from(["@a", "@b"]), key=st.sampled_from("12345"))
    def register(self, account, key):
        permit = PusherPermit(
            account, PusherRequest(frozenset({"app"}), frozenset({key}), registers=True), key, 0.0
        )
        line = self.lines[account]
        assert self.cap.ask(permit) is (WAIT if line else LIST)
        line.append(permit)
        if len(line) == 1:
            self.to_list.append(permit)

    @rule(account=st.sampled_from(["@a", "@b"]), key=st.sampled_from("12345"))
    def delete(self, account, key):
        permit = PusherPermit(
            account, PusherRequest(frozenset({"app"}), frozenset({key}), registers=False), key, 0.0
        )
        assert self.cap.ask(permit) is PASS
        self.deleting.append(permit)

    @precondition(lambda self: self.to_list)
    @rule(which=WHICH)
    def list_comes(self, which):
        permit = self.pick(self.to_list, which)
        there = self.pushers[permit.account]
        verdict = self.cap.listed(permit, frozenset(key_of("app", key) for key in there))
        if permit.owner in there or len(there) < CAP:
            assert verdict is PASS
            self.sent.append(permit)
        else:
            assert verdict is REFUSE
            self.end(permit, succeeded=False)

    @precondition(lambda self: self.sent)
    @rule(which=WHICH, works=st.sampled_from([True, True, True, False]))
    def homeserver_answers(self, which, works):
        permit = self.pick(self.sent, which)
        if works:
            self.pushers[permit.account].add(permit.owner)
        self.end(permit, succeeded=works)

    @precondition(lambda self: self.deleting)
    @rule(which=WHICH)
    def homeserver_deletes(self, which):
        permit = self.pick(self.deleting, which)
        self.pushers[permit.account].discard(permit.owner)
        assert self.cap.end(permit, succeeded=True) is None

    @precondition(lambda self: any(len(line) > 1 for line in self.lines.values()))
    @rule(which=WHICH)
    def one_stops_waiting(self, which):
        waiting = [permit for line in self.lines.values() for permit in line[1:]]
        self.end(self.pick(waiting, which), succeeded=False)

    @precondition(lambda self: self.to_list)
    @rule(which=WHICH)
    def one_leaves_while_the_list_is_asked(self, which):
        self.end(self.pick(self.to_list, which), succeeded=False)

    @invariant()
    def nobody_has_more_than_the_cap(self):
        assert all(len(there) <= CAP for there in self.pushers.values())

    @invariant()
    def books_and_lines_agree(self):
        shown = self.cap.statistics()
        assert shown.in_turn == sum(1 for line in self.lines.values() if line)
        assert shown.waiting == sum(max(0, len(line) - 1) for line in self.lines.values())


Registering.TestCase.settings = settings(max_examples=100, deadline=None)
TestRegistering = Registering.TestCase
