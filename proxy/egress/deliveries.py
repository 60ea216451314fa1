"""Deliveries to push gateways: who may begin one, and what its end teaches (behaviour.md §7.2, §7.3).

The breaker, the places and the known hosts decide; this asks them, tells them, logs, and cuts what is under way to a gateway
that is refused from now on. A delivery is begun, gets a place, and ends once; its end gives back what it holds.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from proxy.egress.dialer import address_key
from proxy.egress.reasons import EgressReason
from proxy.egress.settings import EgressSettings
from proxy.gate.steps import FIRST_HINT_S
from proxy.mechanisms.delivery_places import DeliveryPlaces, Place
from proxy.mechanisms.gateway_breaker import Admission, Change, GatewayBreaker
from proxy.mechanisms.origin_names import written
from proxy.policies.push_egress import DeliveryEnd, KnownHosts, Lesson, gateway_key, lesson_of

MAX_WAIT_S: Final = 30.0
_MAX_ON_TRIAL: Final = 4096

_log = structlog.get_logger("fairgate.egress")

_REACHED, _FAILED = Lesson.REACHED, Lesson.FAILED


class Cuttable(Protocol):
    """A tunnel to a gateway, or a plain delivery under way, that can be cut."""

    def cut(self) -> None:
        """End it now; the homeserver is told in words where nothing was sent yet."""


class RefusedError(Exception):
    """A delivery may not begin; `retry_after_s` says when one may."""

    def __init__(self, reason: EgressReason, retry_after_s: float = FIRST_HINT_S) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Delivery:
    """One delivery, or one connect to a federation peer; see `Deliveries`."""

    __slots__ = ("address", "admission", "host", "key", "place", "spelled_oddly", "waiter")

    def __init__(self, key: str, host: str, admission: Admission, *, spelled_oddly: bool) -> None:
        self.key = key
        self.host = host
        self.spelled_oddly = spelled_oddly
        self.admission: Admission | None = admission
        self.place: Place | None = None
        self.address: str | None = None
        self.waiter: Callable[[], None] | None = None  # called once the place is granted


class Deliveries:
    """All that is under way to gateways."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        settings: EgressSettings,
        known: KnownHosts,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self.known = known
        self.breaker = GatewayBreaker(
            threshold=settings.failure_threshold,
            cooldown_s=settings.cooldown_seconds,
            max_tracked=settings.max_tracked,
        )
        self.places = DeliveryPlaces()
        self.ends_total: Counter[DeliveryEnd] = Counter()
        self._waiting: dict[Place, Delivery] = {}
        self._cuttable: dict[str, set[Cuttable]] = {}
        self._on_trial: OrderedDict[str, None] = OrderedDict()

    def configure(self, settings: EgressSettings) -> None:
        """Take other settings; what is under way goes on."""
        self.breaker.threshold = settings.failure_threshold
        self.breaker.cooldown_s = settings.cooldown_seconds
        self.breaker.max_tracked = settings.max_tracked

    # Beginning.

    def begin(self, host: str, port: int, *, tls: bool, spelled: bytes = b"") -> Delivery:
        """Begin a delivery to a gateway; it holds no place yet.

        Raises:
            RefusedError: while the gateway is refused.
        """
        key = gateway_key(host, port, tls=tls)
        now = self._clock()
        asked = self.breaker.ask(key, now)
        if not isinstance(asked, Admission):
            raise RefusedError(EgressReason.GATEWAY_REFUSED, asked.until - now)
        name = spelled.decode("ascii", "replace").lower()
        oddly = bool(name) and name not in (host, written(host, port))
        return Delivery(key, host, asked, spelled_oddly=oddly)

    def is_peer(self, delivery: Delivery) -> bool:
        """Tell whether only the connect counts."""
        return self.known.is_peer(delivery.host)

    def ask_place(self, delivery: Delivery, address: str, granted: Callable[[], None]) -> bool:
        """Take a place at once (True), or wait for one: `granted` is called then.

        Raises:
            RefusedError: if too many wait.
        """
        delivery.address = address_key(address)
        place = Place(delivery.key, delivery.address)
        at_once = self.places.ask(place)
        if at_once is None:
            raise RefusedError(EgressReason.GATEWAY_BUSY)
        delivery.place = place
        if not at_once:
            delivery.waiter = granted
            self._waiting[place] = delivery
        return at_once

    async def wait_place(self, delivery: Delivery, address: str) -> None:
        """Take a place, waiting for it at most `MAX_WAIT_S`.

        Raises:
            RefusedError: if none came free.
        """
        event = asyncio.Event()
        if self.ask_place(delivery, address, event.set):
            return
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                await event.wait()
        except TimeoutError:
            raise RefusedError(EgressReason.GATEWAY_BUSY) from None

    def went_to(self, delivery: Delivery, address: str) -> None:
        """Book the address that a delivery was connected to.

        Raises:
            RefusedError: if that one is full, or the gateway has begun to be refused while this one was on its way.
        """
        delivery.address = address_key(address)
        if delivery.place is None:
            return
        if delivery.admission is not None and not self.breaker.is_admitted(delivery.admission):
            raise RefusedError(EgressReason.GATEWAY_REFUSED)
        if not self.places.move(delivery.place, delivery.address):
            raise RefusedError(EgressReason.GATEWAY_BUSY)

    # Ending.

    def end(self, delivery: Delivery, how: DeliveryEnd) -> None:
        """End a delivery; a second end is none."""
        admission, delivery.admission = delivery.admission, None
        if admission is None:
            return
        if how is DeliveryEnd.TLS_FAILED and delivery.spelled_oddly:
            how = DeliveryEnd.DECLINED  # a name written oddly fits no certificate: not the gateway's fault
        self.ends_total[how] += 1
        lesson = lesson_of(how, peer=self.is_peer(delivery))
        address = delivery.address if how not in (DeliveryEnd.UNRESOLVED, DeliveryEnd.UNCONNECTED) else None
        if lesson is _REACHED:
            self._on_trial.pop(delivery.key, None)
            change = self.breaker.reached(admission)
        elif lesson is _FAILED:
            change = self.breaker.failed(admission, self._clock())
        else:
            change = Change.NONE
            self.breaker.dropped(admission)
        self._give_back(delivery)
        if lesson is not Lesson.NOTHING:
            self._tell(self.places.note(delivery.key, address, answered=lesson is _REACHED))
        self._changed(delivery, how, change, probe=admission.probe)

    def _give_back(self, delivery: Delivery) -> None:
        place, delivery.place = delivery.place, None
        delivery.waiter = None
        if place is not None:
            self._waiting.pop(place, None)
            self._tell(self.places.give_back(place) if place.granted else self.places.withdraw(place))

    def _tell(self, granted: list[Place]) -> None:
        """Tell those that waited, in the next turn of the loop: they may end others."""
        for place in granted:
            delivery = self._waiting.pop(place, None)
            if delivery is not None and delivery.waiter is not None:
                self._loop.call_soon(delivery.waiter)

    def _changed(self, delivery: Delivery, how: DeliveryEnd, change: Change, *, probe: bool) -> None:
        if change is Change.ADMITS:
            _log.info("gateway reached again", gateway=delivery.key)
        elif change is Change.REFUSES:
            log = _log.debug if probe else _log.warning
            log(
                "gateway refused",
                gateway=delivery.key,
                outcome=how.name.lower(),
                cooldown_s=self.breaker.cooldown_s,
                probe=probe,
            )
            if not self.is_peer(delivery):
                for one in list(self._cuttable.get(delivery.key, ())):
                    one.cut()

    # What may be cut, and gateways whose answers are doubted.

    def add(self, key: str, one: Cuttable) -> None:
        """Book what is cut when the gateway is refused."""
        self._cuttable.setdefault(key, set()).add(one)

    def remove(self, key: str, one: Cuttable) -> None:
        """Forget it."""
        those = self._cuttable.get(key)
        if those is not None:
            those.discard(one)
            if not those:
                del self._cuttable[key]

    def doubt(self, host: str, port: int) -> None:
        """The homeserver gave up a delivery that seemed answered: a stall, and answers are on trial from now on."""
        key = gateway_key(host, port, tls=True)
        self._on_trial[key] = None
        self._on_trial.move_to_end(key)
        if len(self._on_trial) > _MAX_ON_TRIAL:
            self._on_trial.popitem(last=False)
        try:
            delivery = self.begin(host, port, tls=True)
        except RefusedError:
            return
        self.end(delivery, DeliveryEnd.STALLED)

    def is_on_trial(self, key: str) -> bool:
        """Tell whether a gateway's answers count only once the homeserver is content with them."""
        return key in self._on_trial
