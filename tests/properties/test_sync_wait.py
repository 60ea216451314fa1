from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.http1.deadlines import NEVER
from proxy.policies.sync_wait import GHOST_SLACK_S, SyncWait
from proxy.policies.wait_values import WaitPermit, WaitState, WaitVerdict

WHICH = st.integers(0)
BUDGETS = st.fixed_dictionaries(
    {
        "workers": st.sampled_from([1, 4, 9]),
        "per_account": st.integers(1, 4),
        "per_device": st.integers(1, 4),
        "grace_s": st.sampled_from([0.0, 2.0]),
    }
)
LIVE, GHOST, PARKED = WaitState.LIVE, WaitState.GHOST, WaitState.PARKED


class Waiting(RuleBasedStateMachine):
    """Waits of a few accounts, devices and addresses, in any order of events, beside a list of every permit there is."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.permits = []
        self.changed = False  # the promises of the totals hold for budgets that stay as they are

    @initialize(budgets=BUDGETS)
    def begin(self, budgets):
        self.budgets = budgets
        self.waits = SyncWait(**budgets)

    def of(self, *states):
        return [permit for permit in self.permits if permit.state in states]

    def granted(self, permits):
        for permit in permits:
            assert permit.state is LIVE
            assert permit.admitted_at == self.now
            assert permit in self.permits

    def places(self):
        """What the specification counts, from the permits alone: in all, by account, by device, by address."""
        live, ghosts = self.of(LIVE), self.of(GHOST)
        by_account = Counter(permit.account for permit in ghosts)
        over = {key: max(0, count - self.budgets["per_account"]) for key, count in by_account.items()}
        beyond_quarter = len(ghosts) - self.budgets["workers"] // 4
        used = len(live) + max(sum(over.values()), beyond_quarter)
        accounts = Counter(permit.account for permit in live) + Counter(over)
        devices = Counter((permit.account, permit.device) for permit in live)
        addresses = Counter(permit.address for permit in live + ghosts)
        return used, accounts, devices, addresses

    def expected(self, permit):
        used, accounts, devices, addresses = self.places()
        workers = self.budgets["workers"]
        if not permit.exempt:
            per_device = min(self.budgets["per_device"], self.budgets["per_account"])
            if permit.device and devices[permit.account, permit.device] >= per_device:
                return WaitVerdict.SYNC_DEVICE
            if accounts[permit.account] >= self.budgets["per_account"]:
                return WaitVerdict.SYNC_ACCOUNT
            if used >= workers * 3 / 4:
                if accounts[permit.account]:
                    return WaitVerdict.SYNC_TOTAL
                if permit.address is not None and addresses[permit.address] >= workers / 2:
                    return WaitVerdict.SYNC_TOTAL
        return WaitVerdict.ADMIT if used < workers else WaitVerdict.SYNC_TOTAL

    @rule(
        account=st.sampled_from(["@0", "@1", "@2", "10.0.0.1"]),
        device=st.sampled_from(["one", "two", None]),
        address=st.sampled_from(["10.0.0.1", "10.0.0.2", None]),
        timeout_s=st.sampled_from([0.0, 30.0, 120.0]),
        exempt=st.sampled_from([False] * 7 + [True]),
        report=st.sampled_from([False] * 4 + [True]),
    )
    def ask(self, account, device, address, timeout_s, exempt, report):
        self.judge(account, device, address, timeout_s, exempt, report)

    @rule(
        accounts=st.integers(1, 8),
        address=st.sampled_from(["10.0.0.1", "10.0.0.2", None]),
        leave=st.booleans(),
    )
    def many_accounts_ask_from_one_address(self, accounts, address, leave):
        for number in range(accounts):
            self.judge(f"@{number}", "one", address, 30.0, exempt=False, report=False)
            if leave and self.permits[-1].state is LIVE:
                self.granted(self.waits.left(self.permits[-1], self.now))

    def judge(self, account, device, address, timeout_s, exempt, report):
        permit = WaitPermit(account, device, address, timeout_s, None, exempt=exempt)
        expected = self.expected(permit)
        device_may_free = any((p.account, p.device) == (account, device) for p in self.of(LIVE))
        one_is_parked = any((p.account, p.device) == (account, device) for p in self.of(PARKED))
        if report:
            assert self.waits.take(permit, self.now) == expected
        else:
            verdict = self.waits.ask(permit, self.now)
            parks = self.budgets["grace_s"] and device_may_free and not one_is_parked
            if expected is not WaitVerdict.ADMIT and parks:
                assert verdict is WaitVerdict.PARK
            else:
                assert verdict == expected
        self.permits.append(permit)

    @precondition(lambda self: self.permits)
    @rule(which=WHICH)
    def answer_ends_or_fails(self, which):
        self.granted(self.waits.end(self.permits[which % len(self.permits)], self.now))

    @precondition(lambda self: self.of(LIVE))
    @rule(which=WHICH)
    def live_one_ends(self, which):
        live = self.of(LIVE)
        self.granted(self.waits.end(live[which % len(live)], self.now))

    @precondition(lambda self: self.of(LIVE, PARKED))
    @rule(which=WHICH)
    def client_leaves(self, which):
        there = self.of(LIVE, PARKED)
        permit = there[which % len(there)]
        late = permit.admitted_at + permit.timeout_s + GHOST_SLACK_S <= self.now
        becomes_ghost = permit.state is LIVE and not late
        self.granted(self.waits.left(permit, self.now))
        assert permit.state is (GHOST if becomes_ghost else WaitState.DONE)

    @rule(seconds=st.sampled_from([0.5, 1.5, 5.0, 40.0]))
    def some_time_passes(self, seconds):
        self.time_passes(seconds)

    def time_passes(self, seconds):
        self.now += seconds
        result = self.waits.expired(self.now)
        self.granted(result.admitted)
        for permit in result.refused:
            assert permit.state is WaitState.DONE
            assert permit.verdict > WaitVerdict.PARK
        assert self.waits.next_deadline() > self.now
        assert not [permit for permit in self.of(GHOST, PARKED) if permit.deadline_at <= self.now]

    @precondition(lambda self: hasattr(self, "waits") and self.waits.next_deadline() < NEVER)
    @rule()
    def the_next_deadline_comes(self):
        self.time_passes(self.waits.next_deadline() - self.now)

    @rule(budgets=BUDGETS)
    def reconfigure(self, budgets):
        self.budgets = budgets
        self.changed = True
        self.granted(self.waits.reconfigure(**budgets, now=self.now))

    @invariant()
    def books_and_permits_agree(self):
        if not hasattr(self, "waits"):
            return
        shown = self.waits.statistics()
        used, _, _, addresses = self.places()
        assert (shown.live, shown.ghosts, shown.parked) == tuple(
            len(self.of(state)) for state in (LIVE, GHOST, PARKED)
        )
        assert shown.used == used
        assert shown.accounts == len({permit.account for permit in self.of(LIVE, GHOST)})
        assert self.waits._addresses == {key: n for key, n in addresses.items() if key is not None}

    @invariant()
    def promises_hold(self):
        if not hasattr(self, "waits") or self.changed:
            return
        workers, per_account = self.budgets["workers"], self.budgets["per_account"]
        here = self.of(LIVE, GHOST)
        assert len(here) <= workers + workers // 4
        exempt = {permit.account for permit in here if permit.exempt}
        of_account = Counter(permit.account for permit in here if permit.account not in exempt)
        assert all(count <= 2 * per_account for count in of_account.values())

    @invariant()
    def memory_is_bounded_by_live_permits(self):
        if not hasattr(self, "waits"):
            return
        there = self.of(LIVE, GHOST, PARKED)
        assert len(self.waits._deadlines) <= 2 * len(there) + 65
        assert set(self.waits._accounts) <= {permit.account for permit in there}

    def teardown(self):
        if not hasattr(self, "waits"):
            return
        for permit in self.permits:
            self.waits.end(permit, self.now)
        for permit in self.permits:
            self.waits.end(permit, self.now)
        shown = self.waits.statistics()
        assert (shown.used, shown.live, shown.ghosts, shown.parked, shown.accounts) == (0, 0, 0, 0, 0)
        assert self.waits.next_deadline() == NEVER
        assert not self.waits._addresses


Waiting.TestCase.settings = settings(max_examples=150, deadline=None)
TestWaiting = Waiting.TestCase
