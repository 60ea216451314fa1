"""What `POST …/pushers/set` asks for and `GET …/pushers` tells, as any homeserver may read it (behaviour.md §7.1). Pure.

Homeservers read JSON differently: of repeated names Synapse and Dendrite take the last, Dendrite takes names in any case and
broken UTF-8, none minds a field it does not know. So every value a name has is kept, and what we cannot read to its end
counts as a registration of something new.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

#: A longer body goes on unread: pushers are some hundred bytes.
MAX_BODY_BYTES: Final = 65_536
#: A longer list is as good as none.
MAX_LIST_BYTES: Final = 1_048_576


def key_of(app_id: str | None, pushkey: str | None) -> int:
    """Give what a pusher is known under: 64 bits by Python's keyed hash, since pushkeys are long and of clients' choice."""
    return hash((app_id, pushkey))


class PusherRequest(NamedTuple):
    """Every app_id and pushkey a body may be taken to name; one that is no text can be nothing that exists.

    `registers`: some homeserver may take it for more than a deletion.
    """

    app_ids: frozenset[str | None]
    pushkeys: frozenset[str | None]
    registers: bool

    def may_be_new(self, existing: frozenset[int]) -> bool:
        """Tell whether it may name a pusher that is not there yet."""
        if len(self.app_ids) * len(self.pushkeys) > len(existing):
            return True
        return any(
            key_of(app_id, pushkey) not in existing for app_id in self.app_ids for pushkey in self.pushkeys
        )


_UNREADABLE: Final = PusherRequest(frozenset({None}), frozenset({None}), registers=True)


class _Object(list[tuple[str, Any]]):
    """A JSON object with its repeated names."""


def parse_pusher_request(body: bytes) -> PusherRequest | None:
    """Read a whole body; None if it is no object, lacks the names of a pusher or is too long: the homeserver's to answer."""
    if len(body) > MAX_BODY_BYTES:
        return None
    try:
        # Broken UTF-8 and numbers of any length, which some take, must not hide the rest.
        told = json.loads(body.decode("utf-8", "replace"), object_pairs_hook=_Object, parse_int=lambda _: 0)
    except RecursionError:
        return _UNREADABLE
    except ValueError:
        return None
    if not isinstance(told, _Object):
        return None
    values: dict[str, list[Any]] = {"app_id": [], "pushkey": [], "kind": []}
    for name, value in told:
        of_name = values.get(name.casefold())
        if of_name is not None:
            of_name.append(value)
    if not values["app_id"] or not values["pushkey"]:
        return None
    registers = any(kind is not None for kind in values["kind"])
    return PusherRequest(_texts(values["app_id"]), _texts(values["pushkey"]), registers)


def parse_pushers(body: bytes) -> frozenset[int] | None:
    """Read the answer to `GET …/pushers` into the keys of what is there; None if it is none."""
    if len(body) > MAX_LIST_BYTES:
        return None
    try:
        listed = json.loads(body)["pushers"]
        return frozenset(key_of(_text(pusher["app_id"]), _text(pusher["pushkey"])) for pusher in listed)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _texts(values: Sequence[Any]) -> frozenset[str | None]:
    return frozenset(value if isinstance(value, str) else None for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
