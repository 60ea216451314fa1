"""Clients as data, and what they do: so many requests at a time, so often, of such a length, from there. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log

from proxy.http1.deadlines import NEVER
from proxy.simulation.simulator import Request, Simulation


@dataclass(frozen=True, slots=True)
class Client:
    """One client.

    It keeps at most `outstanding` requests in flight. With `rate_per_s` None it sends the next as soon as there is room, else
    as soon as there is room and it is due. `service_s` how long the homeserver works on one. `gives_up_after_s`: it leaves
    then. After a refusal it waits as it is told, unless it `is_rude`.
    """

    group: str
    account: str
    address: str
    service_s: float
    outstanding: int = 1
    rate_per_s: float | None = None
    starts_at: float = 0.0
    ramp_s: float = 0.0
    stops_at: float = NEVER
    lane: int = 0
    confirmed: bool = True
    exponential: bool = False
    gives_up_after_s: float | None = None
    is_rude: bool = False


def start_client(simulation: Simulation, client: Client, seed: int = 0) -> None:
    """Let a client run from `starts_at` on."""
    _Running(simulation, client, seed).begin()


class _Running:
    """A client in a simulation."""

    def __init__(self, simulation: Simulation, client: Client, seed: int) -> None:
        self.simulation = simulation
        self.client = client
        self.in_flight = 0
        self.due_at = client.starts_at
        self.services = _exponential(client.service_s, seed) if client.exponential else None

    def begin(self) -> None:
        """Send the first requests when it is time."""
        for place in range(self.client.outstanding):
            self.simulation.at(self.client.starts_at + place * self.client.ramp_s, self.send_when_due, None)

    def send_when_due(self, _: object) -> None:
        """Send one request now, or when the next is due."""
        client = self.client
        now = self.simulation.now
        if max(now, self.due_at if client.rate_per_s else now) >= client.stops_at:
            return
        if client.rate_per_s is not None:
            if self.due_at > now:
                # Claim the next moment that is due: as many wait for one as there may be in flight.
                self.simulation.at(self.due_at, self.send, None)
                self.due_at += 1 / client.rate_per_s
                return
            self.due_at += 1 / client.rate_per_s
        self.send(None)

    def send(self, _: object) -> None:
        """Send one request."""
        client = self.client
        service_s = client.service_s if self.services is None else next(self.services)
        request = Request(
            at=self.simulation.now,
            group=client.group,
            flow=client.account,
            address=client.address,
            service_s=service_s,
            lane=client.lane,
            confirmed=client.confirmed,
            leaves_after_s=client.gives_up_after_s,
        )
        self.simulation.send(request, self.answered)

    def answered(self, served: bool, now: float, again_after_s: float) -> None:  # noqa: FBT001 - a callback's shape
        """Send the next: at once, or after as long as a refusal said."""
        pause_s = 0.0 if served or self.client.is_rude else again_after_s
        # Never within the same call: a rude client that is refused at once would never return.
        self.simulation.at(now + max(pause_s, 0.0 if served else 1e-3), self.send_when_due, None)


def numbers(seed: int) -> Callable[[], float]:
    """Give evenly distributed numbers in (0, 1], the same for the same seed: the deciding half imports no randomness.

    SplitMix64.
    """
    state = seed & _MASK

    def draw() -> float:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        mixed ^= mixed >> 31
        return ((mixed >> 11) + 1) / (1 << 53)

    return draw


_MASK = (1 << 64) - 1


def _exponential(mean: float, seed: int) -> Iterator[float]:
    draw = numbers(seed)
    while True:
        yield -mean * log(draw())
