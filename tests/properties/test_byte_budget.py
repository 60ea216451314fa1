from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.mechanisms.byte_budget import ByteBudget, ByteLease

WHICH = st.integers(0)
SIZES = st.integers(0, 60)
KEYS = st.sampled_from(["a", "b", "c", None])
LIMITS = st.none() | st.integers(0, 100)


class Budgeting(RuleBasedStateMachine):
    """Leases of several flows and addresses in any order, beside sums counted anew each time."""

    def __init__(self):
        super().__init__()
        self.leases = []

    @initialize(total=st.integers(0, 200), flow=LIMITS, address=LIMITS, unconfirmed=LIMITS)
    def begin(self, total, flow, address, unconfirmed):
        self.limits = (total, flow, address, unconfirmed)
        self.budget = ByteBudget(total, flow_bytes=flow, address_bytes=address, unconfirmed_bytes=unconfirmed)

    def allowed(self, held):
        """Whether every limit holds for `held`, a list of (flow, address, confirmed, bytes)."""
        total, flow, address, unconfirmed = self.limits
        flows, addresses = Counter(), Counter()
        for of_flow, of_address, _, size in held:
            if of_flow is not None:
                flows[of_flow] += size
            if of_address is not None:
                addresses[of_address] += size
        return (
            sum(size for *_, size in held) <= total
            and (flow is None or all(size <= flow for size in flows.values()))
            and (address is None or all(size <= address for size in addresses.values()))
            and (
                unconfirmed is None
                or sum(size for *_, confirmed, size in held if not confirmed) <= unconfirmed
            )
        )

    def held(self, *, without=None):
        return [
            (lease.flow, lease.address, lease.confirmed, lease.taken)
            for lease in self.leases
            if lease is not without
        ]

    @rule(flow=KEYS, address=KEYS, confirmed=st.booleans())
    def new(self, flow, address, confirmed):
        self.leases.append(ByteLease(flow, address, confirmed=confirmed))

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, size=SIZES)
    def take(self, which, size):
        lease = self.leases[which % len(self.leases)]
        before = lease.taken
        would = (lease.flow, lease.address, lease.confirmed, before + size)
        fits = self.allowed([*self.held(without=lease), would])
        assert self.budget.take(lease, size) == fits, "refused exactly where a limit would be passed"
        assert lease.taken == before + size * fits

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, size=SIZES)
    def give_back(self, which, size):
        lease = self.leases[which % len(self.leases)]
        before = lease.taken
        if size > before:
            with pytest.raises(ValueError, match="given back"):
                self.budget.give_back(lease, size)
            assert lease.taken == before
        else:
            self.budget.give_back(lease, size)
            assert lease.taken == before - size

    @precondition(lambda self: self.leases)
    @rule(which=WHICH)
    def end(self, which):
        lease = self.leases.pop(which % len(self.leases))
        self.budget.end(lease)
        self.budget.end(lease)
        assert lease.taken == 0
        with pytest.raises(ValueError, match="ended"):
            self.budget.take(lease, 0)

    @invariant()
    def no_limit_is_passed(self):
        if hasattr(self, "budget"):
            assert self.allowed(self.held())

    @invariant()
    def sums_are_those_of_the_leases(self):
        if not hasattr(self, "budget"):
            return
        figures = self.budget.statistics()
        assert figures.taken_bytes == sum(lease.taken for lease in self.leases)
        assert figures.unconfirmed_bytes == sum(lease.taken for lease in self.leases if not lease.confirmed)
        assert self.budget.over_half == (figures.taken_bytes * 2 > figures.total_bytes)

    @invariant()
    def only_flows_and_addresses_that_hold_bytes_are_remembered(self):
        if not hasattr(self, "budget"):
            return
        _, flow, address, _ = self.limits
        holding = [lease for lease in self.leases if lease.taken]
        flows = {lease.flow for lease in holding} - {None}
        addresses = {lease.address for lease in holding} - {None}
        figures = self.budget.statistics()
        assert figures.flows == (len(flows) if flow is not None else 0)
        assert figures.addresses == (len(addresses) if address is not None else 0)


Budgeting.TestCase.settings = settings(max_examples=40, deadline=None)
TestBudgeting = Budgeting.TestCase
