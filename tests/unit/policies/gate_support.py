"""A gate under virtual time, and what a data path would do with it."""

from itertools import count

from proxy.policies.background_gate import BackgroundGate
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import GatePermit, PermitState, Verdict
from proxy.policies.outcomes import Outcome

ADMIT, PARK, REFUSE = Verdict
FAST, SLOW, REJECTED, TIMEOUT, SERVER_ERROR, RATE_LIMITED, TRANSPORT_ERROR, DROPPED = Outcome
TIMEOUT_S = 30.0
LOAD = (SERVER_ERROR, RATE_LIMITED, TRANSPORT_ERROR)


class Story:
    """Requests at one gate, told in order. Every permit is sent when it is admitted; `now` moves by `later`."""

    def __init__(self, **settings):
        self.now = 1000.0
        self.settings = BackgroundSettings(**settings)
        self.gate = BackgroundGate(self.settings, self.now)
        self.numbers = count()
        self.refused = []

    @property
    def limit(self):
        return self.view.limit

    @property
    def state(self):
        return self.view.state.name.lower()

    @property
    def view(self):
        return self.gate.statistics(self.now)

    def new(self, flow, *, poll=False, exempt=False):
        return GatePermit(flow, f"request {next(self.numbers)}", TIMEOUT_S, long_poll=poll, exempt=exempt)

    def send(self, permits):
        for permit in permits:
            assert permit.state is PermitState.ACTIVE
            self.gate.sent(permit, self.now)
        return permits

    def ask(self, flow, *, poll=False):
        """Give the verdict and the permit."""
        permit = self.new(flow, poll=poll)
        verdict = self.gate.ask(permit, self.now)
        if verdict is ADMIT:
            self.send([permit])
        return verdict, permit

    def admitted(self, flow, *, poll=False):
        verdict, permit = self.ask(flow, poll=poll)
        assert verdict is ADMIT
        return permit

    def parked(self, flow, *, poll=False):
        verdict, permit = self.ask(flow, poll=poll)
        assert verdict is PARK
        return permit

    def ends(self, permit, outcome):
        return self.send(self.gate.finish(permit, outcome, self.now))

    def later(self, seconds):
        """Let time pass, with `expired` called at each deadline on the way; give who was granted a place."""
        end = self.now + seconds
        granted = []
        while self.gate.next_deadline() <= end:
            self.now = max(self.now, self.gate.next_deadline())
            expired = self.gate.expired(self.now)
            self.refused += expired.refused
            granted += self.send(expired.granted)
        self.now = end
        return granted

    def passes(self, flow, outcome, seconds=1.0):
        """One request from beginning to end; a TIMEOUT lets its time pass."""
        permit = self.admitted(flow)
        if outcome is TIMEOUT:
            return self.later(TIMEOUT_S)
        self.later(seconds)
        return self.ends(permit, outcome)

    def shut(self, outcome=SERVER_ERROR):
        """Bring the limit to 0 by failures of two flows, without anything held."""
        flows = count()
        while self.limit:
            self.passes(f"failing {next(flows)}", outcome)
        assert self.state == "refusing"
        return self

    def grow_to(self, limit):
        while self.limit < limit:
            self.passes("growing", FAST)
        return self

    def due_probe(self):
        """Refuse, wait, and give the probe."""
        self.shut()
        self.later(60)
        probe = self.admitted("probing")
        assert self.state == "probing"
        return probe
