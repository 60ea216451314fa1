"""What logs, histograms and traces read of a request; an `Exchange`, which is a part above, is one."""

from typing import Protocol

from proxy.errors import Reason
from proxy.matrix.endpoint import Lane, Poll


class Fields(Protocol):
    """What is read of a head's fields."""

    @property
    def background(self) -> bool:
        """Whether it says that it is background work."""


class Head(Protocol):
    """What is read of a request's head."""

    method: bytes
    target: bytes

    @property
    def fields(self) -> Fields:
        """Its fields."""


class Route(Protocol):
    """What is read of an endpoint."""

    @property
    def route(self) -> int:
        """The route class's number."""

    @property
    def label(self) -> str:
        """The route class's name."""

    @property
    def name(self) -> str:
        """The endpoint's name."""

    @property
    def lane(self) -> Lane:
        """Whose worker it takes."""

    @property
    def poll(self) -> Poll:
        """Which long poll it is, if one."""


class Claim(Protocol):
    """What is read of a worker that was asked for."""

    asked_at: float
    started_at: float


class Peer(Protocol):
    """What is read of a client by address."""

    key: str


class Asking(Protocol):
    """What is read of who asks."""

    key: str
    flow: str
    appservice: bool
    exempt: bool
    device: str | None
    guest: bool

    @property
    def confirmed(self) -> bool:
        """Whether the homeserver named its account."""


class Request(Protocol):
    """See the module."""

    @property
    def head(self) -> Head:
        """Its head."""

    @property
    def endpoint(self) -> Route:
        """Where it goes."""

    @property
    def ticket(self) -> Claim | None:
        """The worker it has."""

    @property
    def asker(self) -> Peer:
        """Who its peer is."""

    @property
    def principal(self) -> Asking | None:
        """Who asks."""

    request_id: bytes
    status: int
    failure: Reason | None
    started_at: float
    sent_at: float
    times: tuple[float, float] | None
