"""Bodies are judged here before they are read: their size, and who may send a large one (behaviour.md §3.3, §3.4)."""

from typing import cast

from proxy import clock
from proxy.errors import Reason
from proxy.gate.steps import Steps
from proxy.identity.principal import Principal
from proxy.matrix.media_config import TARGETS, UNKNOWN_PATH, NotAConfigError, parse_upload_size
from proxy.policies.body_size import BodySizes
from proxy.policies.upload_auth import BodyVerdict, judge_large_body
from proxy.upstream.exchange import Exchange
from proxy.upstream.questions import Questions, without_chunks

_READ, _MISSING_TOKEN, _RELAY, _UNAVAILABLE = BodyVerdict


class UploadGate:
    """Knows how large bodies may be, and asks the homeserver about it. `enforces` False: nothing is refused (§11.1)."""

    steps: Steps

    def __init__(
        self, sizes: BodySizes, questions: Questions, *, confirm_above_bytes: int, enforces: bool
    ) -> None:
        self.sizes = sizes
        self.confirm_above_bytes = confirm_above_bytes
        self.enforces = enforces
        self.relayed_total = 0
        self._questions = questions

    def judge(self, exchange: Exchange, size_bytes: int, now: float) -> Reason | bytes | None:
        """Give why a body of at least this size is not read, or the homeserver's own answer to it; None: it may be read."""
        principal, endpoint = cast(Principal, exchange.principal), exchange.endpoint
        if endpoint.is_upload and principal.confirmed and self.sizes.must_ask(now):
            self._ask(exchange, 0, now)
        refusal = self._refusal(exchange, size_bytes)
        if refusal is None or self.enforces:
            return refusal
        self.steps.reported(exchange, refusal if isinstance(refusal, Reason) else Reason.MISSING_TOKEN)
        return None

    def _refusal(self, exchange: Exchange, size_bytes: int) -> Reason | bytes | None:
        principal, endpoint = cast(Principal, exchange.principal), exchange.endpoint
        if size_bytes > self.sizes.limit(is_upload=endpoint.is_upload):
            return Reason.BODY_TOO_LARGE
        if size_bytes <= self.confirm_above_bytes:
            return None
        verdict = judge_large_body(principal, takes_token=endpoint.takes_token)
        if verdict is _READ:
            return None
        if verdict is _MISSING_TOKEN:
            return Reason.MISSING_TOKEN
        if verdict is _RELAY and principal.refusal is not None:
            self.relayed_total += self.enforces
            answer = principal.refusal.answer
            return answer if exchange.head.minor else without_chunks(answer)
        return Reason.IDENTITY_UNKNOWN

    def _ask(self, exchange: Exchange, attempt: int, now: float) -> None:
        access = exchange.access
        if access is None:
            return

        def answered(status: int, _: bytes, body: bytes) -> None:
            at = clock.now()
            if status in UNKNOWN_PATH and attempt + 1 < len(TARGETS):
                self._ask(exchange, attempt + 1, at)
                return
            if status != 200:
                self.sizes.failed(at)
                return
            try:
                self.sizes.learn(parse_upload_size(body), at)
            except NotAConfigError:
                self.sizes.failed(at)

        self._questions.ask(TARGETS[attempt], access.token, exchange.asker, now, answered)
