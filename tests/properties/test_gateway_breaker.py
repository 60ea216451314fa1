from collections import OrderedDict
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from proxy.mechanisms.breaker import BreakerState
from proxy.mechanisms.gateway_breaker import Admission, Change, GatewayBreaker, Refusal

KEYS = st.sampled_from([f"https://gateway{number}:443" for number in range(6)])
COOLDOWN_S = 300.0


class Model:
    """One gateway by the book: failures in a row, until when it refuses, the one probe, and when it last changed."""

    def __init__(self):
        self.failures = 0
        self.refuses_until = None
        self.probe = None
        self.changed = -1


class Breaking(RuleBasedStateMachine):
    """Everything that can be asked and told, in any order and of any era, beside a plain model."""

    admissions = Bundle("admissions")

    def __init__(self):
        super().__init__()
        self.now = 1000.0
        self.step = 0
        self.models = OrderedDict()
        self.born = {}

    @initialize(threshold=st.integers(1, 4), tracked=st.integers(1, 4))
    def begin(self, threshold, tracked):
        self.threshold, self.tracked = threshold, tracked
        self.breaker = GatewayBreaker(threshold=threshold, cooldown_s=COOLDOWN_S, max_tracked=tracked)

    @rule(seconds=st.sampled_from([0.0, 1.0, 150.0, 299.0, 300.0, 1000.0]))
    def later(self, seconds):
        self.now += seconds

    @rule(target=admissions, key=KEYS)
    def ask(self, key):
        answer = self.breaker.ask(key, self.now)
        model = self.models.get(key)
        self.step += 1
        refused = model is not None and model.refuses_until is not None
        if refused and (model.probe is not None or self.now < model.refuses_until):
            assert answer == Refusal(model.refuses_until)
            return None
        assert isinstance(answer, Admission)
        assert answer.probe == refused
        self.born[answer] = self.step
        if refused:
            model.probe, model.changed = answer, self.step
        return answer

    def counts(self, admission):
        """The model that an outcome is about; None if it is of an earlier era."""
        model = self.models.get(admission.key)
        if model is not None and self.born[admission] < model.changed:
            return None
        return model

    @rule(admission=consumes(admissions))
    def reached(self, admission):
        if admission is None:
            return
        model = self.counts(admission)
        change = self.breaker.reached(admission)
        self.step += 1
        if model is None:
            assert change is Change.NONE
        elif model.probe is admission:
            assert change is Change.ADMITS
            model.failures, model.refuses_until, model.probe, model.changed = 0, None, None, self.step
        else:
            assert change is Change.NONE
            model.failures = 0
            if model.changed < 0:
                del self.models[admission.key]

    @rule(admission=consumes(admissions))
    def failed(self, admission):
        if admission is None:
            return
        known = admission.key in self.models
        model = self.counts(admission)
        change = self.breaker.failed(admission, self.now)
        self.step += 1
        if model is None and known:
            assert change is Change.NONE
            return
        if model is None:
            if len(self.models) == self.tracked:
                self.models.popitem(last=False)
            model = self.models[admission.key] = Model()
        self.models.move_to_end(admission.key)
        model.failures += 1
        if model.probe is admission or model.failures >= self.threshold:
            assert change is Change.REFUSES
            model.refuses_until, model.probe, model.changed = self.now + COOLDOWN_S, None, self.step
        else:
            assert change is Change.NONE

    @rule(admission=consumes(admissions))
    def dropped(self, admission):
        if admission is None:
            return
        model = self.counts(admission)
        self.breaker.dropped(admission)
        self.step += 1
        if model is not None and model.probe is admission:
            model.probe, model.changed = None, self.step

    @rule(admission=consumes(admissions))
    def a_second_outcome_is_a_fault(self, admission):
        if admission is None:
            return
        self.dropped(admission)
        for tell in (
            self.breaker.reached,
            self.breaker.dropped,
            lambda one: self.breaker.failed(one, self.now),
        ):
            with pytest.raises(ValueError, match="second outcome"):
                tell(admission)

    @invariant()
    def books_and_model_agree(self):
        if not hasattr(self, "breaker"):
            return
        assert len(self.breaker) == len(self.models) <= self.tracked
        shown = [(one.key, one.state, one.failures) for one in self.breaker.tracked(self.now)]
        wanted = [
            (key, self.state(model), model.failures) for key, model in self.models.items() if model.failures
        ]
        assert shown == wanted

    @staticmethod
    def state(model):
        if model.probe is not None:
            return BreakerState.PROBING
        return BreakerState.ADMITTING if model.refuses_until is None else BreakerState.REFUSING


Breaking.TestCase.settings = settings(max_examples=80, deadline=None)
TestBreaking = Breaking.TestCase


def test_a_gateway_that_never_answers_costs_three_tries_and_then_one_a_cooldown():
    breaker = GatewayBreaker(threshold=3, cooldown_s=300.0, max_tracked=10)
    tried = []
    for second in range(3600):
        answer = breaker.ask("https://stalls:443", float(second))
        if isinstance(answer, Admission):
            tried.append(second)
            breaker.failed(answer, second + 0.5)

    assert tried[:3] == [0, 1, 2]
    assert len(tried) == 3 + (3600 - 3) // 300
    assert all(later - earlier >= 300 for earlier, later in pairwise(tried[2:]))


def test_answers_in_between_keep_it_admitting():
    breaker = GatewayBreaker(threshold=3, cooldown_s=300.0, max_tracked=10)
    for _ in range(100):
        for _ in range(2):
            assert breaker.failed(breaker.ask("g", 0.0), 0.0) is Change.NONE
        assert breaker.reached(breaker.ask("g", 0.0)) is Change.NONE
    assert len(breaker) == 0


def test_all_that_was_under_way_when_it_began_to_refuse_changes_nothing():
    breaker = GatewayBreaker(threshold=3, cooldown_s=300.0, max_tracked=10)
    under_way = [breaker.ask("g", 0.0) for _ in range(10)]
    changes = [breaker.failed(admission, 60.0 + number) for number, admission in enumerate(under_way[:9])]

    assert changes == [Change.NONE] * 2 + [Change.REFUSES] + [Change.NONE] * 6
    assert not breaker.is_admitted(under_way[9])
    assert breaker.reached(under_way[9]) is Change.NONE
    assert breaker.ask("g", 100.0) == Refusal(362.0)
