"""How bodies and answers are kept, and how fast they have to move, by who asks (behaviour.md §3.1, §3.2, §3.5)."""

from collections.abc import Hashable
from typing import Final

from proxy.identity.principal import CONFIRMED, Principal
from proxy.mechanisms.byte_budget import ByteLease
from proxy.mechanisms.rate_floor import RateFloor
from proxy.spool.body_store import BodyStore
from proxy.spool.settings import BodyRatesSettings
from proxy.spool.stores import BodyStores
from proxy.upstream.request_body import RequestBody

#: A body may come in bursts, but a client that moves nothing for so long is gone; Synapse gives it as long.
_MAX_STALL_S: Final = 60.0
#: The same of a client's answer, where nothing more can be kept: a turn of the radio, and the sweep's second.
_LEAST_STALL_S: Final = 2.0


class Bodies:
    """Both directions of one homeserver. `principal` None stands for a request of which nobody is known yet."""

    def __init__(self, requests: BodyStores, answers: BodyStores, rates: BodyRatesSettings) -> None:
        self.requests = requests
        self.answers = answers
        self.reconfigure(rates)

    def reconfigure(self, rates: BodyRatesSettings) -> None:
        """Take other speeds, for bodies that are on their way too."""
        self._confirmed = (rates.confirmed.bytes_per_second, rates.confirmed.grace_seconds)
        self._unconfirmed = (rates.unconfirmed.bytes_per_second, rates.unconfirmed.grace_seconds)

    def request_store(self, principal: Principal) -> BodyStore:
        """Make the store of a request's body."""
        return _store(self.requests, principal)

    def answer_store(self, principal: Principal | None) -> BodyStore:
        """Make the store of what a client has not taken yet of its answer."""
        return _store(self.answers, principal)

    def answer_lease(self, principal: Principal | None) -> ByteLease:
        """Make the lease of memory for what is on its way to a client."""
        flow, address, confirmed = _charged_to(principal)
        return ByteLease(flow, address, confirmed=confirmed)

    def floor(self, principal: Principal | None, now: float) -> RateFloor:
        """Give how fast the client has to send or to take."""
        confirmed = principal is not None and principal.standing == CONFIRMED
        rate = self._confirmed if confirmed else self._unconfirmed
        return RateFloor(*rate, now, max_stall_s=_MAX_STALL_S)

    def hurry(self, floor: RateFloor, principal: Principal | None, now: float, *, holds_worker: bool) -> None:
        """Require more of a client that takes its answer, the less room there is to keep answers (§3.5)."""
        beyond_half = 2 * self.answers.used_part - 1
        confirmed = principal is not None and principal.standing == CONFIRMED
        in_demand = holds_worker or beyond_half > 0
        floor.switch(*(self._confirmed if confirmed and not in_demand else self._unconfirmed), now)
        floor.max_stall_s = _MAX_STALL_S - (_MAX_STALL_S - _LEAST_STALL_S) * min(1.0, max(0.0, beyond_half))

    def too_slow(self, body: RequestBody, principal: Principal | None, now: float) -> bool:
        """Tell whether a body comes too slowly; one that takes up a worker, or a spool in demand, has to come faster."""
        floor = body.floor
        if floor is None:
            return False
        confirmed = principal is not None and principal.standing == CONFIRMED
        in_demand = body.streams or self.requests.disk.over_half
        floor.switch(*(self._confirmed if confirmed and not in_demand else self._unconfirmed), now)
        floor.moved(body.read_bytes, now)
        return floor.too_slow(now)


def _store(stores: BodyStores, principal: Principal | None) -> BodyStore:
    flow, address, confirmed = _charged_to(principal)
    return BodyStore(stores, flow, address, confirmed=confirmed)


def _charged_to(principal: Principal | None) -> tuple[Hashable | None, str | None, bool]:
    """Give the flow and the address whose limits apply, and whether it is confirmed: a guest, whom everyone may be, is not."""
    if principal is None:
        return None, None, False
    flow = None if principal.exempt else principal.flow
    address = principal.key if principal.address_capped else None
    return flow, address, principal.exempt or (principal.standing == CONFIRMED and not principal.guest)
