"""The access token of a request, read as homeservers read it (behaviour.md §2.3). Pure.

Servers differ: Synapse and Dendrite want `Bearer` exactly, tuwunel takes any case and more spaces, and falls back to the query
where the header is no Bearer; Twisted splits queries at `;` too. Whoever presents a valid token is its holder, so reading it
wherever *some* server would can only charge the holder, while overlooking it would let an account spend its address's
share beside its own. So: every reading counts, and where two are possible (two tokens, two Authorization fields) none does.
The homeserver still decides; what it refuses, it refuses.

Tokens are secrets: nothing here has one in its `repr` or raises an exception.
"""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

_MAX_TOKEN_BYTES: Final = 4096
_VISIBLE: Final = bytes(range(ord("!"), ord("~") + 1))
_BEARER: Final = re.compile(rb"bearer(?: +(.*))?", re.IGNORECASE | re.DOTALL)
#: Escapes of what the names below are made of; those of everyday values (`%7B`, `%22`, `%3A`) are none of them.
_EVASIVE: Final = re.compile(rb"%(?:6[1-9A-Fa-f]|7[0-9Aa]|5[Ff]|2[Ee]|3[0-9])")
#: Begins where a parameter does: from each byte of a long one without `=`, the search would be quadratic.
_PAIR: Final = re.compile(rb"(?<![^&;])([^=&;]*)=([^&;]*)")
_DEVICE_NAMES: Final = (b"device_id", b"org.matrix.msc3202.device_id")
_NAMES: Final = frozenset({b"access_token", b"user_id", *_DEVICE_NAMES})


class AccessToken:
    """What a request presents.

    `token` is the token, b"" where there is none or none that can be one. `user_id` is whom it wants to be taken for, raw,
    b"" for itself; `query` the parameters that say so, raw, as whoami must be asked with them (without `?`).
    """

    __slots__ = ("query", "token", "user_id")

    def __init__(self, token: bytes, user_id: bytes = b"", query: bytes = b"") -> None:
        self.token = token
        self.user_id = user_id
        self.query = query

    def __repr__(self) -> str:
        return f"<AccessToken {'given' if self.token else 'none'}>"


#: No token at all, or another scheme (`X-Matrix`, `Basic`).
NONE: Final = AccessToken(b"")
#: Something is there that cannot be a token: empty, too long, with spaces or controls, or two of them.
UNUSABLE: Final = AccessToken(b"")


def read_access_token(authorization: Sequence[bytes], query: bytes) -> AccessToken:
    """Give the token of a request: NONE, UNUSABLE, or one to ask about.

    `authorization` are the values of all Authorization fields, stripped; `query` is the raw query without `?`.
    """
    bearer = None
    if authorization:
        if len(authorization) > 1:
            return UNUSABLE
        bearer = _bearer(authorization[0])
    if query and may_name_token(query):
        return _with_query(bearer, _parameters(query))
    return NONE if bearer is None else _judged(bearer)


def may_name_token(query: bytes) -> bool:
    """Tell whether a query may have one of our parameters; most have none, and are not taken apart."""
    return (
        b"_id=" in query
        or b"access_token=" in query
        or (b"%" in query and _EVASIVE.search(query) is not None)
    )


def _bearer(value: bytes) -> bytes | None:
    """Give the token of a field's value, b"" where it is empty, None where the scheme is another."""
    if value.startswith(b"Bearer ") and not value.startswith(b"Bearer  "):
        return value[7:]
    match = _BEARER.fullmatch(value)
    return None if match is None else match[1] or b""


def _with_query(bearer: bytes | None, parameters: dict[bytes, bytes]) -> AccessToken:
    token = bearer
    in_query = parameters.get(b"access_token")
    if in_query is not None:
        if bearer and in_query:
            return UNUSABLE
        token = bearer or unquote_to_bytes(in_query.replace(b"+", b" "))
    if token is None:
        return NONE
    user_id = parameters.get(b"user_id", b"")
    asked = [(b"user_id", user_id)] if user_id else []
    asked += [(name, parameters[name]) for name in _DEVICE_NAMES if parameters.get(name)]
    return _judged(token, user_id, b"&".join([b"%b=%b" % pair for pair in asked]))


def _judged(token: bytes, user_id: bytes = b"", query: bytes = b"") -> AccessToken:
    if not token or len(token) > _MAX_TOKEN_BYTES or token.translate(None, _VISIBLE):
        return UNUSABLE
    return AccessToken(token, user_id, query)


def _parameters(query: bytes) -> dict[bytes, bytes]:
    """Give the first value of each parameter we know, raw."""
    found: dict[bytes, bytes] = {}
    for name, value in _PAIR.findall(query):
        if b"%" in name:
            name = unquote_to_bytes(name)  # noqa: PLW2901  (the same name, in clear)
        if name in _NAMES:
            found.setdefault(name, value)
    return found
