"""The life of a request, top to bottom. Read this first.

1. A client's connection has a complete head; `http1.request_head` parsed it, or refused it (§9).
2. Its kind is told from method and target (`matrix.routes`); the kind sets the deadline of the answer (§4.1, §5.4).
3. What goes to the homeserver is put together: the request line and fields as they came, without the hop-by-hop ones, with
   exactly one X-Forwarded-For, X-Forwarded-Proto and X-Request-Id (§2.2).
4. The pool runs the exchange on a connection to the homeserver, at once if one is idle; requests without a body are sent
   together at the end of the loop's turn.
5. Body and answer pass through `upstream.exchange`, each side pausing the other.
6. The connection goes back to the pool, the client's is parked.

Refusals of every step meet in `refusal`.
"""

import os
import random
from itertools import count

from proxy import clock
from proxy.errors import Reason, refusal_bytes
from proxy.http1.request_head import RequestHead
from proxy.matrix.routes import RouteClass, classify, sync_timeout_s
from proxy.upstream.exchange import ClientPort, Exchange
from proxy.upstream.pool import Pool
from proxy.upstream.settings import LanesSettings

_SYNC = RouteClass.SYNC
_SYNC_SLACK_S = 90.0  # homeservers answer long polls late: §5.4
_SYNC_UNKNOWN_S = 210.0
_SYNC_LONGEST_S = 3600.0
_UPGRADE = b"\r\nConnection: Upgrade\r\nUpgrade: websocket"
_HINT_S = (5.0, 30.0)  # the first, and the longest, while an outage lasts: §10.1


class Pipeline:
    """Takes requests from clients' connections to the pool; counts what passed and what was refused."""

    def __init__(self, pool: Pool, lanes: LanesSettings, homeserver_host: bytes) -> None:
        self.pool = pool
        self.requests_total = [0] * len(RouteClass)
        self.refused_total = dict.fromkeys(Reason, 0)
        self._host_field = b"\r\nHost: %s" % homeserver_host
        self._deadlines = _deadlines(lanes)
        # Unique across processes and restarts; an id only joins our log with the homeserver's.
        self._id_prefix = b"fg-%s-" % os.urandom(4).hex().encode()
        self._ids = count(1)

    def begin(self, client: ClientPort, head: RequestHead, forwarded: bytes, now: float) -> Exchange:
        """Make the exchange of a request; `forwarded` is the client's X-Forwarded-For and -Proto, each behind its CR LF."""
        route = classify(head.method, head.target)
        self.requests_total[route] += 1
        fields = head.fields
        request_id = fields.request_id
        if request_id is None:
            request_id = self._id_prefix + b"%x" % next(self._ids)
            forwarded += b"\r\nX-Request-Id: " + request_id
        if fields.host is None:
            forwarded += self._host_field
        if head.upgrade:
            forwarded += _UPGRADE
        wire_head = b"".join((head.line, fields.wire, forwarded, b"\r\n\r\n"))
        deadline_s = self._deadlines[route]
        if route is _SYNC:
            timeout_s = sync_timeout_s(head.target)
            deadline_s = (
                _SYNC_UNKNOWN_S if timeout_s is None else min(timeout_s + _SYNC_SLACK_S, _SYNC_LONGEST_S)
            )
        return Exchange(client, head, route, request_id, wire_head, self.pool, deadline_s, now)

    def refusal(self, reason: Reason, *, close: bool, head_only: bool) -> bytes:
        """Count a refusal and give its bytes."""
        self.refused_total[reason] += 1
        retry_after_s = None
        if reason.retry:
            first, longest = _HINT_S
            outage_s = self.pool.failing_for_s(clock.now())
            retry_after_s = min(longest, first + outage_s) * random.uniform(0.5, 1.5)  # noqa: S311  (spreads, hides nothing)
        return refusal_bytes(reason, retry_after_s=retry_after_s, close=close, head_only=head_only)


def _deadlines(lanes: LanesSettings) -> list[float]:
    by_class = {
        RouteClass.VITAL: lanes.vital.deadline_seconds,
        RouteClass.REQUESTS: lanes.requests.deadline_seconds,
        RouteClass.MEDIA: lanes.media.deadline_seconds,
        RouteClass.HISTORY: lanes.requests.history_deadline_seconds,
        RouteClass.REMOTE: lanes.remote.deadline_seconds,
        RouteClass.FEDERATION: lanes.federation.deadline_seconds,
        RouteClass.SYNC: _SYNC_UNKNOWN_S,
        RouteClass.FIRST_SYNC: lanes.first_syncs.deadline_seconds,
    }
    return [by_class[route] for route in RouteClass]
