"""The life of a request, top to bottom. Read this first.

1. A client's connection has a complete head; `http1.request_head` parsed it, or refused it (§9).
2. `begin`: who the client is by address, what kind of request this is, the head as the homeserver gets it (§2.1, §2.2).
3. `admit`: who asks, by token; the identity gate waits for the homeserver's word where it is not known (§2.3).
4. `identified`: limits that can refuse at once: tunnels (§1.6), a long poll's budgets (§5).
   `may_wait`: first syncs of an account wait for each other (§5.5).
5. `may_begin`: how large its body may be, and from whom (§3.3, §3.4); then it is read, before a worker is taken (§3.1).
   `body_streams`: one that can be kept no longer goes on with a worker while it comes, if it may.
6. `body_read`: a place beside the others, if nobody waits for it (§6); then `may_work`: a worker of its lane (§4).
7. `has_worker`: the cap of pushers (§7.1); `may_register`: the pool runs the exchange on a connection to the homeserver.
8. Answer and body pass through `upstream.exchange`, each side pausing the other.
9. `ended`: the permits come back, in reverse; the homeserver's connection goes to the pool, the client's is parked.

Refusals of every step meet in `refuse` and `refusal`.
"""

import os
from itertools import count
from typing import Final, cast

import structlog

from proxy import clock
from proxy.errors import Reason, refusal_bytes
from proxy.gate.gates import Gates
from proxy.gate.identity import access_of
from proxy.gate.lessons import Lessons
from proxy.gate.steps import FIRST_HINT_S, outage_hint_s
from proxy.http1.request_head import MEMORY_BLOCK_BYTES, RequestHead
from proxy.identity.client_key import Client, ClientKeys
from proxy.identity.principal import Principal, anonymous
from proxy.matrix.endpoint import Lane, Poll, RouteClass
from proxy.matrix.profiles import SYNC_SLACK_S, SYNC_UNKNOWN_S, Figures
from proxy.matrix.routes import find_endpoint
from proxy.matrix.sync_request import lower_timeout
from proxy.mechanisms.rate_floor import RateFloor
from proxy.observability.recorder import Recorder
from proxy.spool.body_store import BodyStore
from proxy.upstream.bodies import Bodies
from proxy.upstream.exchange import ENDED, HELD, IN_SERVICE, NOBODY, READING, ClientPort, Exchange
from proxy.upstream.pool import Pool
from proxy.upstream.request_body import RequestBody

_SYNC, _FIRST_SYNC, _REQUESTS = RouteClass.SYNC, RouteClass.FIRST_SYNC, RouteClass.REQUESTS
_MEDIA, _FEDERATION = RouteClass.MEDIA, RouteClass.FEDERATION
_NO_POLL, _APPSERVICES, _REQUESTS_LANE = Poll.NONE, Lane.APPSERVICES, Lane.REQUESTS
_UPGRADE = b"\r\nConnection: Upgrade\r\nUpgrade: websocket"
_WARN_EVERY_S: Final = 60.0

_log = structlog.get_logger("fairgate")


class Pipeline:
    """Takes requests from clients' connections to the homeserver; counts what passed and what was refused."""

    def __init__(  # noqa: PLR0913  (each is a part of its own)
        self, pool: Pool, gates: Gates, bodies: Bodies, figures: Figures, client_keys: ClientKeys, recorder: Recorder, *,
        max_hold_s: float, max_timeout_s: float, forwarded_header: str, homeserver_host: bytes,
    ) -> None:  # fmt: skip
        self.pool = pool
        self.gates = gates
        self.identity, self.tunnels = gates.identity, gates.tunnels
        self.waits, self.first_syncs = gates.waits, gates.first_syncs
        self.uploads, self.streams = gates.uploads, gates.streams
        self.background, self.workers, self.pushers = gates.background, gates.workers, gates.pushers
        for gate in gates:
            gate.steps = self
        self.bodies = bodies
        self.recorder = recorder
        self.requests_total = [0] * len(RouteClass)
        self.refused_total = dict.fromkeys(Reason, 0)
        self._host_field = b"\r\nHost: %s" % homeserver_host
        # Unique across processes and restarts; an id only joins our log with the homeserver's.
        self._id_prefix = b"fg-%s-" % os.urandom(4).hex().encode()
        self._ids = count(1)
        self._warned_at = -_WARN_EVERY_S
        self.lessons = Lessons(self.identity.identities)
        self.configure(
            figures,
            client_keys,
            max_hold_s=max_hold_s,
            max_timeout_s=max_timeout_s,
            forwarded_header=forwarded_header,
        )

    def configure(
        self, figures: Figures, client_keys: ClientKeys, *, max_hold_s: float, max_timeout_s: float, forwarded_header: str
    ) -> None:  # fmt: skip
        """Take figures and limits, at start and whenever they change."""
        self.figures = figures
        self.workers.appservice_deadline_s = figures.lanes[_APPSERVICES].deadline_s
        self.client_keys = client_keys
        self.max_hold_s = max_hold_s
        self._max_timeout_ms = int(max_timeout_s * 1000)
        self._by_forwarded = forwarded_header == "Forwarded"

    # 2 to 4: what can be told from the head.

    def begin(self, port: ClientPort, head: RequestHead, asker: Client, now: float) -> Exchange:
        """Make the exchange of a request. `asker` is who the peer is by address."""
        endpoint = find_endpoint(head.method, head.target)
        self.requests_total[endpoint.route] += 1
        fields = head.fields
        named = fields.forwarded if self._by_forwarded else fields.forwarded_for
        if named:
            asker = self.client_keys.resolve(asker.peer, named)
            if asker.suspected_ingress:
                self._warn_of_ingress(asker, now)
        scheme = port.scheme
        added = asker.fields(asker.scheme(fields.forwarded_proto, scheme) if asker.trusted else scheme)
        request_id = fields.request_id
        if request_id is None:
            request_id = self._id_prefix + b"%x" % next(self._ids)
            added += b"\r\nX-Request-Id: " + request_id
        if fields.host is None:
            added += self._host_field
        if head.upgrade:
            added += _UPGRADE
        line = head.line
        deadline_s = self.figures.deadlines_s[endpoint.route]
        if endpoint.poll is not _NO_POLL:
            target, asked_s = lower_timeout(head.target, self._max_timeout_ms)
            if target is not head.target:
                line = b"%b %b HTTP/1.1" % (head.method, target)
            if endpoint.lane is _REQUESTS_LANE:  # it does work, and does not wait: §5.5
                deadline_s = self.figures.deadlines_s[_REQUESTS]
            elif endpoint.route is _SYNC:
                deadline_s = SYNC_UNKNOWN_S if asked_s is None else asked_s + SYNC_SLACK_S
        wire_head = b"".join((line, fields.wire, added, b"\r\n\r\n"))
        if len(fields.wire) > MEMORY_BLOCK_BYTES:
            fields.wire = b""  # one copy is enough while it stands in line
        exchange = Exchange(port, asker, head, endpoint, wire_head, self, deadline_s, now)
        exchange.request_id = request_id
        return exchange

    def admit(self, exchange: Exchange, now: float) -> None:
        """Take a request as far as it may go at once."""
        principal: Principal | None = None
        if exchange.endpoint.takes_token:
            access = access_of(exchange.head)
            if access.token:
                exchange.access = access
                principal = self.identity.identify(exchange, access, now)
                if principal is None:
                    return
        self.identified(exchange, anonymous(exchange.asker) if principal is None else principal, now)

    def identified(self, exchange: Exchange, principal: Principal, now: float) -> None:
        """Refuse what is too much at once."""
        exchange.principal = principal
        if exchange.head.upgrade:
            reason = self.tunnels.take(exchange)
            if reason is not None:
                self.refuse(exchange, reason)
                return
        endpoint = exchange.endpoint
        if endpoint.poll is not _NO_POLL:
            if self.waits.take(exchange, now):
                self.may_wait(exchange, now)
        elif (
            exchange.body is None
            and endpoint.route is not _FIRST_SYNC
            and not self.background.is_background(exchange)
        ):
            self.may_work(exchange, now)  # the everyday request
        else:
            self.may_wait(exchange, now)

    def may_wait(self, exchange: Exchange, now: float) -> None:
        """Let the first syncs of an account wait for each other."""
        if exchange.endpoint.route is not _FIRST_SYNC or self.first_syncs.take(exchange, now):
            self.may_begin(exchange, now)

    def may_begin(self, exchange: Exchange, now: float) -> None:
        """Read the body, if there is one and it may be read."""
        body = exchange.body
        if body is None:
            self._complete(exchange, now)
            return
        if body.left > 0 and not self._may_read(exchange, body.left, now):
            return
        exchange.stage = READING
        exchange.client.body_wanted()

    def _may_read(self, exchange: Exchange, size_bytes: int, now: float) -> bool:
        """Tell whether a large body may be read; if not, its client has its answer."""
        refusal = self.uploads.judge(exchange, size_bytes, now)
        if refusal is None:
            return True
        if isinstance(refusal, Reason):
            self._give_up(exchange, refusal)
            return False
        client = exchange.client
        exchange.left(now)
        if exchange.answer_began:
            client.cut()
        else:
            client.write(refusal)  # the homeserver's own answer to the token
            client.answered(now, close=True)
        return False

    # 5 and 6: its body, a worker.

    def body_floor(self, exchange: Exchange, now: float) -> RateFloor:
        """Give how fast a body that is not whole yet has to come."""
        return self.bodies.floor(exchange.principal, now)

    def body_too_slow(self, exchange: Exchange, now: float) -> bool:
        """Tell whether it comes too slowly."""
        return self.bodies.too_slow(cast(RequestBody, exchange.body), exchange.principal, now)

    def new_store(self, exchange: Exchange) -> BodyStore:
        """Make the store of a body that comes in pieces."""
        return self.bodies.request_store(cast(Principal, exchange.principal))

    def body_grows(self, exchange: Exchange, body: RequestBody) -> None:
        """Judge again a body that is getting large on its way."""
        uploads = self.uploads
        if body.read_bytes > uploads.confirm_above_bytes and not body.judged:
            body.judged = True
            self._may_read(exchange, body.read_bytes, clock.now())
        elif (
            body.read_bytes > uploads.sizes.limit(is_upload=exchange.endpoint.is_upload)
            and not body.too_large
        ):
            body.too_large = True
            self._may_read(exchange, body.read_bytes, clock.now())

    def body_lost(self, exchange: Exchange) -> None:
        """Give up a request of whose body the disk lost a part."""
        self._give_up(exchange, Reason.SPOOL_FAILED)

    def body_streams(self, exchange: Exchange) -> None:
        """Go on with a request of whose body no more can be kept, if it may hold a worker while the rest comes."""
        if exchange.stage == READING:
            refusal = self.streams.take(exchange)
            if refusal is None:
                self._complete(exchange, clock.now())
            else:
                self._give_up(exchange, refusal)

    def body_streamed(self, exchange: Exchange) -> None:
        """All of it came: it is a request like any other, and another may stream."""
        self.streams.give_back(exchange)

    def body_read(self, exchange: Exchange) -> None:
        """Go on with a request whose body is there."""
        if exchange.stage == READING:
            self._complete(exchange, clock.now())

    def _complete(self, exchange: Exchange, now: float) -> None:
        if not self.background.is_background(exchange) or self.background.take(exchange, now):
            self.may_work(exchange, now)

    def may_work(self, exchange: Exchange, now: float) -> None:
        """Take a worker, or a place in line."""
        if self.workers.take(exchange, now):
            if exchange.endpoint.sets_pusher:
                self.has_worker(exchange, now)
            else:
                self.may_register(exchange, now)

    # 7 to 9: the homeserver, and the end.

    def has_worker(self, exchange: Exchange, now: float) -> None:
        """Look at what only few requests are asked."""
        if not exchange.endpoint.sets_pusher or self.pushers.take(exchange, now):
            self.may_register(exchange, now)

    def may_register(self, exchange: Exchange, now: float) -> None:
        """Let the homeserver have it."""
        exchange.stage = IN_SERVICE
        exchange.sent_at = now
        if exchange.permits is not None:
            self.background.sent(exchange, now)
        self.pool.submit(exchange, now)

    def ends_with_client(self, exchange: Exchange) -> bool:
        """Tell whether the homeserver stops working on it when its connection goes (§8)."""
        return self.figures.ends_with_client(exchange.endpoint, exchange.head.method)

    def held(self, exchange: Exchange, now: float) -> None:
        """The homeserver goes on with it, for nobody."""
        self.workers.hold(exchange, now)
        self.background.held(exchange, now)
        self.first_syncs.give_back(exchange, now)
        self.waits.left(exchange, now)

    def tunnelled(self, exchange: Exchange) -> None:
        """It is a tunnel now: what it was asked for is answered, so it needs no worker and no place at the gate any more."""
        now = clock.now()
        self.workers.give_back(exchange, now)
        self.background.ended(exchange, now, abandoned=False)

    def ended(self, exchange: Exchange, now: float) -> None:
        """The homeserver is done with it."""
        was_held = exchange.stage == HELD
        exchange.stage = ENDED
        self.recorder.ended(exchange, now)
        if exchange.body is not None:
            exchange.body.end()
        if (
            exchange.status >= 400
            or exchange.permits is not None
            or exchange.failure is not None
            or exchange.endpoint.kills_token
            or exchange.endpoint.route is _FEDERATION
        ):
            self._ended_with_more(exchange, now, was_held=was_held)
        else:
            self.workers.give_back(exchange, now)

    def _ended_with_more(self, exchange: Exchange, now: float, *, was_held: bool) -> None:
        """Give back what few requests are given, and learn from how it ended."""
        status = exchange.status
        self.lessons.ended(exchange)
        if status == 504 and exchange.endpoint.route is not _MEDIA:
            # Whoever gave up waiting for the homeserver, it may still be at work. Of media it says that there is none yet.
            self.workers.hold_until(exchange, now + self.max_hold_s, now)
        self.pushers.give_back(exchange, now)
        self.workers.give_back(exchange, now)
        # Nobody waited for its end, unless it ended here by our own deadline.
        abandoned = exchange.client is NOBODY and (was_held or exchange.failure is None)
        self.background.ended(exchange, now, abandoned=abandoned)
        self.streams.give_back(exchange)
        self.first_syncs.give_back(exchange, now)
        self.waits.give_back(exchange, now)
        self.tunnels.give_back(exchange)

    def withdraw(self, exchange: Exchange) -> None:
        """Its client left before the homeserver got it."""
        if exchange.stage == ENDED:
            return
        if exchange.stage == IN_SERVICE:
            self.pool.withdraw(exchange)
        self._end(exchange, clock.now())

    # Answers of our own.

    def refusal(self, reason: Reason, retry_after_s: float | None, *, close: bool, head_only: bool) -> bytes:
        """Count a refusal and give its bytes; without a hint of its own it is about the homeserver: longer in a long outage."""
        self.refused_total[reason] += 1
        if reason.retry and retry_after_s is None:
            retry_after_s = outage_hint_s(FIRST_HINT_S + self.pool.failing_for_s(clock.now()))
        return refusal_bytes(reason, retry_after_s=retry_after_s, close=close, head_only=head_only)

    def _give_up(self, exchange: Exchange, reason: Reason) -> None:
        client = exchange.client
        exchange.left(clock.now())
        if exchange.answer_began:
            client.cut()
        else:
            client.refuse(reason)

    def reported(self, exchange: Exchange, reason: Reason) -> None:
        """It would have been refused, were the rule enforced (§11.1)."""
        self.recorder.reported(exchange, reason)

    def refuse(self, exchange: Exchange, reason: Reason, retry_after_s: float | None = None) -> None:
        """Answer a request that the homeserver never got; what it was given before comes back."""
        self._end(exchange, clock.now())
        exchange.client.refuse(reason, retry_after_s)

    def _end(self, exchange: Exchange, now: float) -> None:
        exchange.stage = ENDED
        exchange.end_body()
        self.pushers.give_back(exchange, now)
        self.workers.give_back(exchange, now)
        self.background.withdraw(exchange, now)
        self.streams.give_back(exchange)
        self.first_syncs.give_back(exchange, now)
        self.waits.give_back(exchange, now)
        self.tunnels.give_back(exchange)
        self.identity.withdraw(exchange)

    def turn(self, now: float) -> None:
        """End the waits that lasted too long."""
        self.identity.turn(now)
        self.waits.turn(now)
        self.first_syncs.turn(now)
        self.pushers.turn(now)
        self.background.turn(now)
        self.workers.turn(now)
        self.recorder.turn(now)

    def _warn_of_ingress(self, asker: Client, now: float) -> None:
        if now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            _log.warning(
                "a peer that is not in clients.trusted_proxies sends a forwarding header: if it is your ingress, name it "
                "there; until then all its clients count as one where they have no token",
                peer=asker.key,
            )
