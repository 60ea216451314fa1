"""A breaker for each of many destinations that others choose: skip one that cannot be reached, probe it now and then.

    ADMITTING --`threshold` failures in a row--> REFUSING for `cooldown_s`
    REFUSING  --the first asked after that-----> PROBING, all others still refused
    PROBING   --reached--> ADMITTING   --failed--> REFUSING anew   --dropped--> REFUSING, the next asked probes at once

What is asked for gets an `Admission`, given back exactly once with its outcome: reached, failed, or dropped, which teaches
nothing. An outcome of an earlier era, that is from before the last change of state, changes nothing. Memory: one entry for
a destination that failed last, at most `max_tracked`; beyond that the least recently failing is forgotten, since keys are
chosen by others. What counts as a failure is the caller's.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from proxy.mechanisms.breaker import BreakerState


class Change(IntEnum):
    """What an outcome did to its destination."""

    NONE = 0
    REFUSES = 1  # began to refuse, or goes on after a failed probe
    ADMITS = 2  # a probe reached it


_ADMITTING, _REFUSING, _PROBING = BreakerState
_NONE, _REFUSES, _ADMITS = Change
_BEFORE_ANY: Final = -1


class Admission:
    """The right to try once; `probe` says that others are refused meanwhile."""

    __slots__ = ("era", "key", "open", "probe")

    def __init__(self, key: str, era: int, *, probe: bool) -> None:
        self.key = key
        self.era = era
        self.probe = probe
        self.open = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Not now; the next try is let through at `until` (monotonic seconds), or once the probe under way has ended."""

    until: float


@dataclass(frozen=True, slots=True)
class Tracked:
    """One destination that failed last, for people."""

    key: str
    state: BreakerState
    failures: int
    next_probe_s: float | None


class _Circuit:
    __slots__ = ("changed_in_era", "failures", "refuses_until", "state")

    def __init__(self) -> None:
        self.state = _ADMITTING
        self.failures = 0
        self.refuses_until = 0.0
        self.changed_in_era = _BEFORE_ANY


class GatewayBreaker:
    """All destinations; the least recently failing comes first."""

    def __init__(self, *, threshold: int, cooldown_s: float, max_tracked: int) -> None:
        self.threshold = threshold
        self.cooldown_s = cooldown_s
        self.max_tracked = max_tracked
        self._circuits: OrderedDict[str, _Circuit] = OrderedDict()
        self._era = 0

    def __len__(self) -> int:
        return len(self._circuits)

    def ask(self, key: str, now: float) -> Admission | Refusal:
        """Ask to try `key` once."""
        circuit = self._circuits.get(key)
        if circuit is None or circuit.state is _ADMITTING:
            return Admission(key, self._era, probe=False)
        if circuit.state is _PROBING or now < circuit.refuses_until:
            return Refusal(circuit.refuses_until)
        self._change(circuit, _PROBING)
        return Admission(key, self._era, probe=True)

    def is_admitted(self, admission: Admission) -> bool:
        """Tell whether what was admitted would not have been cut since."""
        circuit = self._circuits.get(admission.key)
        return circuit is None or circuit.state is _ADMITTING or not self._stale(circuit, admission)

    def reached(self, admission: Admission) -> Change:
        """It was reached: nothing in a row any more."""
        circuit = self._close(admission)
        if circuit is None:
            return _NONE
        if circuit.state is _PROBING:
            circuit.failures = 0
            self._change(circuit, _ADMITTING)  # the entry stays: it tells stale outcomes
            return _ADMITS
        if circuit.changed_in_era == _BEFORE_ANY:
            del self._circuits[admission.key]
        circuit.failures = 0
        return _NONE

    def failed(self, admission: Admission, now: float) -> Change:
        """It could not be reached."""
        circuit = self._close(admission, make=True)
        if circuit is None:
            return _NONE
        self._circuits.move_to_end(admission.key)
        circuit.failures += 1
        if circuit.state is _ADMITTING and circuit.failures < self.threshold:
            return _NONE
        circuit.refuses_until = now + self.cooldown_s
        self._change(circuit, _REFUSING)
        return _REFUSES

    def dropped(self, admission: Admission) -> None:
        """It was not tried, or taught nothing: a probe's place goes to the next."""
        circuit = self._close(admission)
        if circuit is not None and circuit.state is _PROBING:
            self._change(circuit, _REFUSING)

    def tracked(self, now: float) -> Iterator[Tracked]:
        """Give those with failures in a row, the least recently failing first."""
        for key, circuit in self._circuits.items():
            if circuit.failures:
                next_probe_s = None if circuit.state is _ADMITTING else max(0.0, circuit.refuses_until - now)
                yield Tracked(key, circuit.state, circuit.failures, next_probe_s)

    def _close(self, admission: Admission, *, make: bool = False) -> _Circuit | None:
        """End an admission; give its circuit where its outcome still matters."""
        if not admission.open:
            raise ValueError(f"a second outcome for {admission.key}")
        admission.open = False
        circuit = self._circuits.get(admission.key)
        if circuit is None:
            return self._track(admission.key) if make else None
        return None if self._stale(circuit, admission) else circuit

    @staticmethod
    def _stale(circuit: _Circuit, admission: Admission) -> bool:
        return admission.era < circuit.changed_in_era

    def _change(self, circuit: _Circuit, state: BreakerState) -> None:
        self._era += 1
        circuit.changed_in_era = self._era
        circuit.state = state

    def _track(self, key: str) -> _Circuit:
        while len(self._circuits) >= self.max_tracked:
            self._circuits.popitem(last=False)
        circuit = self._circuits[key] = _Circuit()
        return circuit
