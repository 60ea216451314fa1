"""What is background: what says so, and what the operator names (behaviour.md §6.1).

Patterns are globs over the whole value (`identity.globs`). Accounts are compared as they are, user agents without regard to
case; to find a word anywhere write `*word*`. All are compiled once into one expression each, and what was found of a user agent
is kept, since there are few. With nothing configured a request costs one look at a flag. Bounds: time linear in a value's
length; `_MAX_AGENTS` kept, of at most `_MAX_AGENT_BYTES` each.
"""

import re
from typing import Final

from proxy.identity.globs import compile_globs
from proxy.matrix.endpoint import RouteClass
from proxy.policies.background_settings import BackgroundMatchSettings, BackgroundTimeoutSettings

_MAX_AGENTS: Final = 1024
_MAX_AGENT_BYTES: Final = 512


class BackgroundMatch:
    """The configured rules. `configured` is False where only the request's own word counts."""

    __slots__ = ("_accounts", "_agents_found", "_classes", "_user_agents", "configured")

    def __init__(self, settings: BackgroundMatchSettings) -> None:
        self._accounts = compile_globs(settings.accounts)
        agents = compile_globs(settings.user_agents)
        self._user_agents = (
            None if agents is None else re.compile(agents.pattern.encode(), re.IGNORECASE | re.DOTALL)
        )
        self._agents_found: dict[bytes, bool] = {}
        self._classes = frozenset(RouteClass[name.upper()] for name in settings.classes)
        self.configured = bool(settings.accounts or settings.user_agents or settings.classes)

    def why(
        self, account: str | None, user_agent: bytes | None, route: RouteClass, *, declared: bool
    ) -> str | None:
        """Give the rule that makes a request background: declared, accounts, user_agents or classes; None if none does.

        `account` is a confirmed one; an unconfirmed request matches no account's rule.
        """
        if declared:
            return "declared"
        if not self.configured:
            return None
        if route in self._classes:
            return "classes"
        if account is not None and self._accounts is not None and self._accounts.fullmatch(account):
            return "accounts"
        if user_agent is not None and self._user_agents is not None and self._is_named(user_agent):
            return "user_agents"
        return None

    def _is_named(self, user_agent: bytes) -> bool:
        found = self._agents_found.get(user_agent)
        if found is None:
            found = self._user_agents is not None and self._user_agents.fullmatch(user_agent) is not None
            if len(user_agent) <= _MAX_AGENT_BYTES:
                if len(self._agents_found) >= _MAX_AGENTS:
                    self._agents_found.clear()
                self._agents_found[user_agent] = found
        return found


def timeout_s(settings: BackgroundTimeoutSettings, endpoint_name: str) -> float:
    """Give from when on a background request counts as a failure, in seconds from sending (§6.3).

    `endpoint_name` is `matrix.endpoint.Endpoint.name`: reads of a room's state, single look-ups, are due earlier.
    """
    return settings.state if endpoint_name == "state" else settings.default
