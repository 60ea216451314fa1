"""Virtual time for gates, clients that are never content, and homeservers that struggle."""

import heapq
from itertools import count

from proxy.policies.background_gate import BackgroundGate
from proxy.policies.background_settings import BackgroundSettings
from proxy.policies.gate_values import GatePermit, Verdict
from proxy.policies.outcomes import of_answer

CLIENT_TIMEOUT_S = 30.0


class World:
    """Events in the order of their time."""

    def __init__(self):
        self.now = 0.0
        self._events = []
        self._order = count()

    def at(self, instant, happens, *given):
        heapq.heappush(self._events, (max(instant, self.now), next(self._order), happens, given))

    def after(self, seconds, happens, *given):
        self.at(self.now + seconds, happens, *given)

    def run_until(self, end):
        while self._events and self._events[0][0] <= end:
            self.now, _, happens, given = heapq.heappop(self._events)
            happens(*given)
        self.now = end


class GatedSide:
    """A gate with its timer, before a homeserver; the owner of a permit is the client that asked."""

    def __init__(self, world, homeserver, **settings):
        self.world = world
        self.homeserver = homeserver
        self.gate = BackgroundGate(BackgroundSettings(**settings), world.now)
        self.admitted_at = []
        self.served_at = []
        self.most_active = 0
        self._timer_at = float("inf")

    def ask(self, client):
        client.permit = GatePermit(client.flow, client, CLIENT_TIMEOUT_S)
        verdict = self.gate.ask(client.permit, self.world.now)
        if verdict is Verdict.ADMIT:
            self.run([client.permit])
        elif verdict is Verdict.REFUSE:
            client.refused(self.gate.retry_after_s(self.world.now))
        self.arm()

    def run(self, permits):
        for permit in permits:
            self.admitted_at.append(self.world.now)
            self.gate.sent(permit, self.world.now)
            permit.owner.sent()
            self.homeserver.begin(self.done, permit)
        self.most_active = max(self.most_active, self.gate.statistics(self.world.now).active)

    def done(self, permit, status):
        now = self.world.now
        elapsed_s = now - permit.sent_at
        self.run(self.gate.finish(permit, of_answer(status, elapsed_s, self.gate.fast_within_s(permit)), now))
        if elapsed_s < CLIENT_TIMEOUT_S and status < 500:
            self.served_at.append(now)
        permit.owner.answered(permit)
        self.arm()

    def gone(self, client):
        self.run(self.gate.left(client.permit, self.world.now))
        self.arm()

    def arm(self):
        due_at = self.gate.next_deadline()
        if due_at < self._timer_at:
            self._timer_at = due_at
            self.world.at(due_at, self.expire, due_at)

    def expire(self, armed_for):
        if armed_for != self._timer_at:
            return
        self._timer_at = float("inf")
        expired = self.gate.expired(self.world.now)
        for permit in expired.refused:
            permit.owner.refused(self.gate.retry_after_s(self.world.now))
        self.run(expired.granted)
        self.arm()


class OpenSide:
    """No gate: the control."""

    def __init__(self, world, homeserver):
        self.world = world
        self.homeserver = homeserver
        self.admitted_at = []

    def ask(self, client):
        client.permit = GatePermit(client.flow, client, CLIENT_TIMEOUT_S)
        self.admitted_at.append(self.world.now)
        client.sent()
        self.homeserver.begin(self.done, client.permit)

    def done(self, permit, status):
        assert status == 200
        permit.owner.answered(permit)

    def gone(self, client):
        pass


class Backfill:
    """Pages without end: asks again as soon as it has an answer, gives up after 30 s, and then asks again too."""

    def __init__(self, world, side, flow, pause_s=0.5):
        self.world = world
        self.side = side
        self.flow = flow
        self.pause_s = pause_s
        self.permit = None
        self.asks = 0
        self.abandoned = 0
        self.ask()

    def ask(self):
        self.asks += 1
        self.side.ask(self)

    def sent(self):
        self.world.after(CLIENT_TIMEOUT_S, self.give_up, self.permit)

    def give_up(self, permit):
        if permit is self.permit:
            self.abandoned += 1
            self.side.gone(self)
            self.permit = None
            self.world.after(self.pause_s, self.ask)

    def answered(self, permit):
        if permit is self.permit:
            self.permit = None
            self.world.after(self.pause_s, self.ask)

    def refused(self, retry_after_s):
        self.permit = None
        self.world.after(retry_after_s, self.ask)


class IncidentHomeserver:
    """Answers in 0.84 s, or, while it struggles, works on for as long as the incident's did after its client left.

    The quantiles are those of the incident's log: 3 min at the 10th percentile, 18 min at the median, 2.2 h at the 90th.
    """

    QUANTILES = ((0.0, 30.0), (0.1, 180.0), (0.5, 1080.0), (0.9, 7920.0), (1.0, 8640.0))

    def __init__(self, world, random, stuck_share, recovers_at):
        self.world = world
        self.random = random
        self.stuck_share = stuck_share
        self.recovers_at = recovers_at
        self.running = 0
        self.most_running = 0

    def begin(self, done, permit):
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        struggles = self.world.now < self.recovers_at and self.random.random() < self.stuck_share
        self.world.after(
            CLIENT_TIMEOUT_S + self.work_after_s() if struggles else 0.84, self.end, done, permit
        )

    def work_after_s(self):
        share = self.random.random()
        for (low, low_s), (high, high_s) in zip(self.QUANTILES, self.QUANTILES[1:], strict=False):
            if share <= high:
                return low_s + (high_s - low_s) * (share - low) / (high - low)
        raise AssertionError

    def end(self, done, permit):
        self.running -= 1
        done(permit, 200)


class SharedHomeserver:
    """Divides its power equally between what it runs: each advances at `min(1, power / running)` seconds a second."""

    def __init__(self, world, random, power, mean_work_s):
        self.world = world
        self.random = random
        self.power = power
        self.mean_work_s = mean_work_s
        self.left_s = {}
        self._since = 0.0
        self._turn = 0

    def begin(self, done, permit):
        self.advance()
        self.left_s[permit] = (self.mean_work_s * self.random.uniform(0.5, 1.5), done)
        self.plan()

    def rate(self):
        return min(1.0, self.power / len(self.left_s))

    def advance(self):
        if self.left_s:
            progress_s = (self.world.now - self._since) * self.rate()
            self.left_s = {
                permit: (left_s - progress_s, done) for permit, (left_s, done) in self.left_s.items()
            }
        self._since = self.world.now

    def plan(self):
        self._turn += 1
        if self.left_s:
            first_s = min(left_s for left_s, _ in self.left_s.values())
            self.world.after(max(0.0, first_s) / self.rate(), self.end, self._turn)

    def end(self, turn):
        if turn != self._turn:
            return
        self.advance()
        permit = min(self.left_s, key=lambda permit: self.left_s[permit][0])
        _, done = self.left_s.pop(permit)
        self.plan()
        done(permit, 200)
