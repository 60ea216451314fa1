from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from proxy.mechanisms.breaker import TRANSITIONS, Breaker, BreakerState
from proxy.policies.background_gate import PER_FLOW_IN_LINE, BackgroundGate
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import GatePermit, PermitState, Verdict
from proxy.policies.outcomes import FAILURES, Outcome

WHICH = st.integers(0)
FLOW = st.sampled_from("abc")
OUTCOME = st.sampled_from([*Outcome, Outcome.FAST, Outcome.SERVER_ERROR])
TIMEOUT_S, HOLD_S, MAX_WAIT_S = 10.0, 50.0, 15.0
seen_transitions = set()
seen_ways = set()  # of permits, from state to state


class RecordingBreaker(Breaker):
    def move(self, event, now):
        before = self.state
        seen_transitions.add((before, event, super().move(event, now)))
        return self.state


class Gating(RuleBasedStateMachine):
    """Everything that can happen to a gate, in any order, beside plain lists of who is where."""

    @initialize(initial=st.integers(1, 6), maximum=st.integers(6, 7))
    def begin(self, initial, maximum):
        chosen = BackgroundSettings(
            initial_limit=initial,
            max_limit=maximum,
            grow_after=2,
            hold_seconds=HOLD_S,
            cooldown_seconds=20,
            cooldown_max_seconds=60,
            max_wait_seconds=MAX_WAIT_S,
        )
        self.now = 100.0
        self.gate = BackgroundGate(chosen, self.now)
        recording = RecordingBreaker(20, 60, self.now)
        self.gate._breaker = self.gate._feedback.breaker = recording
        self.permits = []  # all that asked, in order
        self.before = {}  # where each was before the present step
        self.steps = count(1)
        self.admitted_at_step = {}
        self.last_cut_step = 0
        self.probes = set()
        self.remember()
        self.asked, self.failed = set(), set()

    def remember(self):
        self.view = self.gate.statistics(self.now)
        self.cuts = self.view.totals.cuts
        self.before = {permit: permit.state for permit in self.permits}

    def those(self, *states):
        return [permit for permit in self.permits if permit.state in states]

    def in_line(self, flow, poll):
        return [p for p in self.those(PermitState.WAITING) if p.flow == flow and p.long_poll is poll]

    def step(self, granted=(), failing=(), newcomer=None):
        """Check what a call did against what was there before it."""
        step = next(self.steps)
        was, view = self.view, self.gate.statistics(self.now)
        for permit in self.permits:
            if permit in self.before and self.before[permit] is not permit.state:
                seen_ways.add((self.before[permit].name, permit.state.name))
        self.check_cut(was, view, failing)
        places = {p for p in self.those(PermitState.ACTIVE, PermitState.HELD) if takes_place(p)} - set(
            granted
        )
        for permit in granted:
            self.check_admission(permit, places, view, is_new=permit is newcomer)
            if takes_place(permit):
                places.add(permit)
            self.admitted_at_step[permit] = step
        if view.totals.cuts > self.cuts:
            self.last_cut_step = step - 0.5  # what is granted in this very step comes after the cut
        self.remember()

    def check_cut(self, was, view, failing):
        assert view.totals.cuts - self.cuts <= 1
        self.failed |= {permit.flow for permit in failing if self.counts(permit)}
        if view.totals.cuts > self.cuts and failing:
            assert any(self.counts(permit) for permit in failing), "one cut per burst"
        if was.limit == 1 and view.limit == 0 and was.state is BreakerState.ADMITTING:
            assert len(self.failed) > 1 or len(self.asked) < 2, (
                "one flow alone does not shut the gate for others"
            )
        if view.limit != was.limit:
            self.asked, self.failed = {p.flow for p in self.those(PermitState.WAITING)}, set()

    def late(self, permit):
        """Whether the sweep should have found that it timed out."""
        return permit.sent_at is not None and not permit.long_poll and self.now >= permit.sent_at + TIMEOUT_S

    def counts(self, permit):
        return self.admitted_at_step.get(permit, -1) > self.last_cut_step

    def check_admission(self, permit, places, view, *, is_new):
        assert permit.state is PermitState.ACTIVE
        assert permit not in self.admitted_at_step, "a permit is granted once"
        assert is_new or self.before[permit] is PermitState.WAITING
        order = self.permits.index
        assert all(order(p) > order(permit) for p in self.in_line(permit.flow, permit.long_poll)), (
            "first in first out"
        )
        self.asked.add(permit.flow)
        if view.state is BreakerState.PROBING:
            assert not places
            self.probes = {p for p in self.probes if p.state is PermitState.ACTIVE}
            assert not self.probes, "one probe"
            self.probes.add(permit)
            if permit.long_poll:
                assert not [p for p in self.those(PermitState.WAITING) if not p.long_poll]
        else:
            assert view.state is BreakerState.ADMITTING
            if not permit.long_poll:
                assert len(places) < view.limit
                assert len([p for p in places if p.flow == permit.flow]) < max(1, view.limit // 2)

    # What can happen.

    @rule(flow=FLOW, poll=st.booleans(), sends=st.booleans())
    def ask(self, flow, poll, sends):
        permit = GatePermit(flow, None, TIMEOUT_S, long_poll=poll)
        in_line = len(self.in_line(flow, True) + self.in_line(flow, False))
        verdict = self.gate.ask(permit, self.now)
        self.asked.add(flow)
        self.permits.append(permit)
        assert (
            permit.state
            is {
                Verdict.ADMIT: PermitState.ACTIVE,
                Verdict.PARK: PermitState.WAITING,
                Verdict.REFUSE: PermitState.DONE,
            }[verdict]
        )
        assert (verdict is Verdict.REFUSE) <= (in_line == PER_FLOW_IN_LINE)
        if verdict is Verdict.ADMIT and sends:
            self.gate.sent(permit, self.now)
        self.step([permit] if verdict is Verdict.ADMIT else [], newcomer=permit)

    @precondition(lambda self: self.those(PermitState.ACTIVE))
    @rule()
    def all_are_sent(self):
        for permit in self.those(PermitState.ACTIVE):
            self.gate.sent(permit, self.now)
        self.step()

    @precondition(lambda self: self.those(PermitState.ACTIVE))
    @rule(which=WHICH, outcome=OUTCOME)
    def finish(self, which, outcome):
        active = self.those(PermitState.ACTIVE)
        permit = active[which % len(active)]
        self.end(permit, outcome)

    def end(self, permit, outcome):
        was = permit.state
        late = self.late(permit)
        silent = permit.client_left and outcome is not Outcome.TIMEOUT and not late
        counts = was is PermitState.ACTIVE and (outcome in FAILURES or late) and not silent
        granted = self.gate.finish(permit, outcome, self.now)
        holds = was is PermitState.ACTIVE and outcome is Outcome.TIMEOUT
        assert permit.state is (PermitState.HELD if holds else PermitState.DONE)
        self.step(granted, [permit] if counts else [])

    @precondition(lambda self: self.those(PermitState.ACTIVE))
    @rule(which=WHICH)
    def times_out(self, which):
        active = self.those(PermitState.ACTIVE)
        permit = active[which % len(active)]
        granted = self.gate.hold(permit, self.now)
        assert permit.state is PermitState.HELD
        self.step(granted, [permit])

    @precondition(lambda self: self.those(PermitState.HELD))
    @rule(which=WHICH, outcome=st.none() | OUTCOME)
    def the_homeserver_is_done_with_a_held_one(self, which, outcome):
        held = self.those(PermitState.HELD)
        permit = held[which % len(held)]
        was = self.view.limit, self.view.state
        how = (self.gate.released, (permit,)) if outcome is None else (self.gate.finish, (permit, outcome))
        granted = how[0](*how[1], self.now)
        view = self.gate.statistics(self.now)
        assert (view.limit, view.state) == was or view.state is BreakerState.PROBING
        assert permit.state is PermitState.DONE
        self.step(granted)

    @precondition(lambda self: self.those(PermitState.ACTIVE, PermitState.WAITING))
    @rule(which=WHICH)
    def a_client_leaves(self, which):
        there = self.those(PermitState.ACTIVE, PermitState.WAITING)
        permit = there[which % len(there)]
        was = permit.state
        self.step(self.gate.left(permit, self.now))
        assert was is PermitState.WAITING or permit.sent_at is None or permit.state is was

    @precondition(lambda self: self.permits)
    @rule(which=WHICH)
    def something_is_taken_back(self, which):
        permit = self.permits[which % len(self.permits)]
        failing = [permit] if permit.state is PermitState.ACTIVE and self.late(permit) else []
        self.step(self.gate.withdraw(permit, self.now), failing)
        assert permit.state in (PermitState.DONE, PermitState.HELD)

    @precondition(lambda self: self.those(PermitState.DONE))
    @rule(which=WHICH, outcome=OUTCOME)
    def something_is_told_of_a_permit_that_is_done(self, which, outcome):
        done = self.those(PermitState.DONE)
        permit = done[which % len(done)]
        for call in (self.gate.hold, self.gate.released, self.gate.left, self.gate.withdraw):
            assert call(permit, self.now) == []
        assert self.gate.finish(permit, outcome, self.now) == []
        self.step()
        assert permit.state is PermitState.DONE

    @rule(flow=FLOW, outcome=st.sampled_from(sorted(FAILURES)), ago_s=st.sampled_from([0.0, 5.0]))
    def an_interactive_request_fails(self, flow, outcome, ago_s):
        was = self.view.limit, self.view.state
        self.gate.report_interactive(flow, outcome, self.now - ago_s, self.now)
        view = self.gate.statistics(self.now)
        assert view.state is was[1]
        assert view.limit in (was[0], max(1, was[0] // 2))
        self.step()

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0, 30.0, 60.0]))
    def time_passes(self, seconds):
        end = self.now + seconds
        while self.gate.next_deadline() <= end:
            self.now = max(self.now, self.gate.next_deadline())
            self.sweep()
            assert self.gate.next_deadline() > self.now, "nothing is due twice"
        self.now = end
        self.sweep()
        assert all(self.now < p.asked_at + MAX_WAIT_S for p in self.those(PermitState.WAITING))
        assert all(self.now < p.hold_until for p in self.those(PermitState.HELD))

    def sweep(self):
        due = [p for p in self.those(PermitState.ACTIVE) if self.late(p)]
        expired = self.gate.expired(self.now)
        assert all(self.before[p] is PermitState.WAITING for p in expired.refused)
        self.step(expired.granted, due)
        self.nobody_waits_for_nothing()

    # The same in the order that leads somewhere, since chance alone rarely does.

    @precondition(lambda self: self.view.state is BreakerState.ADMITTING)
    @rule(
        flows=st.lists(FLOW, min_size=2, max_size=5),
        poll=st.booleans(),
        outcome=st.sampled_from(sorted(FAILURES)),
    )
    def a_burst_fails(self, flows, poll, outcome):
        for flow in flows:
            self.ask(flow, poll, sends=True)
        for permit in self.those(PermitState.ACTIVE):
            if permit.state is PermitState.ACTIVE:
                self.end(permit, outcome)

    @precondition(lambda self: self.view.state is BreakerState.REFUSING)
    @rule(who=st.lists(st.tuples(FLOW, st.booleans()), min_size=1, max_size=4), all_end=st.booleans())
    def a_cooldown_ends(self, who, all_end):
        for permit in self.those(PermitState.ACTIVE, PermitState.HELD) if all_end else ():
            self.end(permit, Outcome.DROPPED)
        if self.view.state is BreakerState.REFUSING:
            self.now += self.view.next_probe_in_s
            self.sweep()
        for flow, poll in who:
            self.ask(flow, poll, sends=True)
        assert not all_end or self.view.state is BreakerState.PROBING

    @precondition(lambda self: self.view.state is BreakerState.PROBING)
    @rule(outcome=st.sampled_from(Outcome))
    def the_probe_ends(self, outcome):
        (probe,) = (p for p in self.probes if p.state is PermitState.ACTIVE)
        n = self.view.reopened
        granted = self.gate.finish(probe, outcome, self.now)
        view = self.gate.statistics(self.now)
        assert view.reopened in (0, n, n + 1)
        assert view.reopened <= n or view.state is BreakerState.REFUSING
        self.step(granted, [probe] if outcome in FAILURES else [])

    @rule(seconds=st.sampled_from([1.0, 11.0, 70.0]))
    def the_sweep_is_late(self, seconds):
        self.now += seconds

    def nobody_waits_for_nothing(self):
        waiting = self.those(PermitState.WAITING)
        if self.view.state is BreakerState.ADMITTING:
            assert not [p for p in waiting if p.long_poll]
            if self.view.active + self.view.held < self.view.limit:
                assert not [p for p in waiting if self.gate._has_room(p)]
        elif self.view.state is BreakerState.REFUSING and not self.view.active + self.view.held:
            assert not waiting or self.view.next_probe_in_s

    # What always holds.

    @invariant()
    def books_and_lists_agree(self):
        view = self.gate.statistics(self.now)
        places = [p for p in self.those(PermitState.ACTIVE, PermitState.HELD) if takes_place(p)]
        assert view.active + view.held == len(places)
        assert view.held == len(self.those(PermitState.HELD))
        assert view.waiting == len(self.those(PermitState.WAITING))
        for flow in "abc":
            assert self.gate._places.of(flow) == len([p for p in places if p.flow == flow])

    @invariant()
    def limit_and_breaker_are_within_their_bounds(self):
        view = self.gate.statistics(self.now)
        assert 0 <= view.limit <= view.max_limit
        assert (view.limit == 0) == (view.state is not BreakerState.ADMITTING)
        assert view.state is not BreakerState.ADMITTING or view.reopened == 0
        assert (view.next_probe_in_s is None) == (view.state is not BreakerState.REFUSING)

    def teardown(self):
        if not hasattr(self, "gate"):
            return
        self.now += 1000
        while self.those(PermitState.WAITING, PermitState.ACTIVE, PermitState.HELD):
            self.sweep()
            for permit in self.those(PermitState.ACTIVE):
                self.step(self.gate.finish(permit, Outcome.DROPPED, self.now))
            for permit in self.those(PermitState.HELD):
                self.step(self.gate.released(permit, self.now))
        assert len(self.gate._places) == 0
        assert self.gate._places._of_party == {}


def takes_place(permit):
    return not permit.long_poll or permit.state is PermitState.HELD


def test_whatever_happens_the_gate_keeps_its_promises_and_every_state_and_transition_is_visited():
    seen_transitions.clear()
    seen_ways.clear()
    run_state_machine_as_test(
        Gating, settings=settings(max_examples=100, stateful_step_count=50, deadline=None)
    )
    assert seen_transitions == {(state, event, after) for (state, event), after in TRANSITIONS.items()}
    assert seen_ways == {
        ("WAITING", "ACTIVE"),
        ("WAITING", "DONE"),
        ("ACTIVE", "HELD"),
        ("ACTIVE", "DONE"),
        ("HELD", "DONE"),
    }
