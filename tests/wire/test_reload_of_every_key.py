"""Every key of the settings: a reload either applies it or says that it needs a restart, and no third.

A world is started with a number of its own for every numeric key, and its file is written again with others. Whatever the
application is made of must then hold the new one, and nothing of it the old one. What is no number is in a table.
"""

import asyncio
import collections
import copy
import enum
import functools
import logging
import types

import pytest
import structlog
import yaml
from harness import World
from pydantic import BaseModel, ValidationError

from proxy.config.changes import NEEDS_RESTART
from proxy.config.schema import locations
from proxy.config.settings import Settings
from proxy.identity.networks import parse_address
from proxy.matrix.endpoint import Lane, RouteClass

BASE = {
    "homeserver": {"profile": "synapse"},
    "background": {"max_limit": 1_000},
    "bodies": {
        "rate": {of: {"bytes_per_second": 1, "grace_seconds": 1} for of in ("unconfirmed", "confirmed")}
    },
}
ALICE, BOB = "@alice:h", "@bob:h"


def client(world, address, forwarded=b"203.0.113.9"):
    return world.application.pipeline.client_keys.resolve(address, (forwarded,))


def exempt(world, account, device=None, *, appservice=False):
    cover = world.application.pipeline.identity.identities._exemptions.cover
    return cover(account, device, guest=False, appservice=appservice)


def background(world, account=None, agent=None, route=RouteClass.REQUESTS):
    return world.application.pipeline.background._match.why(account, agent, route, declared=False)


def enforced(gate):
    return lambda world: getattr(world.application.pipeline, gate).enforces


#: Of what is no number, or is kept as what follows from it: the new value, what is looked at, what is seen only then.
SEEN = {
    ("mode",): ("report", enforced("tunnels"), False),
    ("connections", "tunnels", "mode"): ("report", enforced("tunnels"), False),
    ("lanes", "mode"): ("report", enforced("workers"), False),
    ("lanes", "address_share"): (0.5, lambda world: world.share._lanes[Lane.VITAL].source_cap, 8),
    ("sync", "mode"): ("report", enforced("waits"), False),
    ("uploads", "mode"): ("report", enforced("uploads"), False),
    ("background", "mode"): ("report", enforced("background"), False),
    ("pushers", "mode"): ("report", enforced("pushers"), False),
    ("homeserver", "profile"): (
        "dendrite",
        lambda world: world.application.snapshot().rules.profile,
        "dendrite",
    ),
    ("clients", "trusted_proxies", 0): ("192.0.2.0/24", lambda w: client(w, "192.0.2.1").key, "203.0.113.9"),
    ("clients", "forwarded_header"): (
        "Forwarded",
        lambda world: world.application.pipeline._by_forwarded,
        True,
    ),
    ("clients", "exempt", "accounts", 0): (ALICE, lambda world: exempt(world, ALICE), True),
    ("clients", "exempt", "devices", 0): (f"{ALICE}/D", lambda world: exempt(world, ALICE, "D"), True),
    ("clients", "exempt", "appservices", 0): (BOB, lambda world: exempt(world, BOB, appservice=True), True),
    ("clients", "exempt", "networks", 0): (
        "192.0.2.0/24",
        lambda world: client(world, "192.0.2.1").exempt,
        True,
    ),
    ("background", "match", "accounts", 0): (
        ALICE,
        lambda world: background(world, account=ALICE),
        "accounts",
    ),
    ("background", "match", "user_agents", 0): (
        "x*",
        lambda world: background(world, agent=b"xy"),
        "user_agents",
    ),
    ("background", "match", "classes", 0): (
        "media",
        lambda w: background(w, route=RouteClass.MEDIA),
        "classes",
    ),
    ("egress", "clients", 0): (
        "192.0.2.0/24",
        lambda world: parse_address("192.0.2.1") in world.application.egress._clients,
        True,
    ),
    ("egress", "allow", 0): (
        "127.0.0.1/32",
        lambda world: world.application.egress.dialer.guard.allows("127.0.0.1"),
        True,
    ),
    ("egress", "gateways", 0): (
        "a.push.test",
        lambda world: world.application.egress.known.is_gateway("a.push.test", 443),
        True,
    ),
    ("admin", "token"): ("0123456789abcdef", lambda w: w.application.operators._token, "0123456789abcdef"),
    ("log", "level"): ("error", lambda _: logging.getLogger().level, logging.ERROR),
    ("log", "format"): (
        "console",
        lambda _: type(structlog.get_config()["processors"][-1]).__name__,
        "ConsoleRenderer",
    ),
    ("log", "access"): ("all", lambda world: world.application.listener.logs_all, True),
    ("log", "trace"): ("<trace>", lambda world: world.application.pipeline.recorder.trace is not None, True),
}


#: What leads to everything else, this test's world with its settings included.
NOT_ITS_OWN = (
    *(type, types.ModuleType, types.CodeType, enum.Enum, str, bytes),
    *(asyncio.Future, asyncio.AbstractEventLoop),
)
#: An attribute of a class that was compiled.
COMPILED = types.GetSetDescriptorType


def named(location):
    return ".".join(map(str, location))


def needs_restart(location):
    return any(location[: len(key)] == key for key in NEEDS_RESTART)


def leaves():
    found = list(locations())
    above = {location[:-1] for location in found}
    return [location for location in found if location not in above]


def placed(tree, location, value):
    *above, last = location
    for key in above:
        tree = tree.setdefault(key, {})
    tree[last] = value


def valid(location, value):
    tree = copy.deepcopy(BASE)
    placed(tree, location, value)
    try:
        Settings.model_validate(tree)
    except ValidationError:
        return False
    return True


def number_for(location, index, go):
    """Give a number that the key may have and nothing else has, in the first `go` or the second; None if it has none."""
    at = index + 200 * go
    numbers = (151.37 + at, 0.7501 + at / 10_000 + 0.000_031, 799 - at, 1_999 - at, 97 + index + 9 * go)
    return next((number for number in numbers if valid(location, number)), None)


NUMBERS = {
    location: tuple(number_for(location, index, go) for go in (0, 1))
    for index, location in enumerate(leaves())
    if not needs_restart(location) and location not in SEEN
}


def settings(go):
    tree = copy.deepcopy(BASE)
    for location, numbers in NUMBERS.items():
        placed(tree, location, numbers[go])
    return tree


def reachable(application):
    """Yield every number that the application is made of, with its way, but for the settings it was started with."""
    seen = {id(application._settings), id(application._started_with)}
    queue = collections.deque([("application", application)])
    while queue:
        way, found = queue.popleft()
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            yield way, found
        elif id(found) not in seen and not isinstance(found, NOT_ITS_OWN):
            seen.add(id(found))
            queue.extend((f"{way}.{name}", part) for name, part in parts_of(found))


def parts_of(found):
    if isinstance(found, dict):
        return [*((str(key), value) for key, value in found.items()), *((f"key {key}", key) for key in found)]
    if isinstance(found, (list, tuple, set, frozenset, collections.deque)):
        return [(str(at), value) for at, value in enumerate(found)]
    if isinstance(found, types.MethodType):
        return [("__self__", found.__self__)]
    if isinstance(found, functools.partial):
        return [("func", found.func), ("args", found.args)]
    names = set(getattr(found, "__dict__", ()))
    if not isinstance(found, BaseModel):
        for kind in type(found).__mro__:
            slots = getattr(kind, "__slots__", ())
            names.update((slots,) if isinstance(slots, str) else slots)
            names.update(name for name, part in vars(kind).items() if isinstance(part, COMPILED))
    return [(name, getattr(found, name)) for name in names if hasattr(found, name)]


def reloading(loop, path, tree, look):
    """Start a world with some settings; `look(world, reload)`, where `reload(other)` gives its settings others."""

    async def whole():
        world = World(copy.deepcopy(tree), path=path)
        await world.start()
        try:
            own = world.application._settings.model_dump(mode="json")

            def reload(other):
                new = copy.deepcopy(other)
                for location in (
                    ("listen",),
                    ("admin", "listen"),
                    ("metrics", "listen"),
                    ("homeserver", "url"),
                ):
                    placed(new, location, functools.reduce(dict.__getitem__, location, own))
                path.write_text(yaml.safe_dump(new))
                reloaded = world.application.reload()
                assert reloaded.mistakes == ()
                return reloaded

            look(world, reload)
        finally:
            await world.stop()

    loop.run_until_complete(whole())


def test_every_key_needs_a_restart_or_is_a_number_or_is_looked_at():
    assert [location for location, numbers in NUMBERS.items() if None in numbers] == []
    assert [location for location in SEEN if needs_restart(location)] == []
    assert set(SEEN) <= set(leaves())


def test_every_number_holds_after_a_reload_and_the_one_of_before_nowhere(loop, tmp_path):
    def look(world, reload):
        assert len(reload(settings(1)).changed) >= len(NUMBERS) - 1
        holds = collections.defaultdict(list)
        for way, number in reachable(world.application):
            holds[round(number, 6)].append(way)
        faults = []
        for location, (old, new) in NUMBERS.items():
            if round(new, 6) not in holds:
                faults.append((named(location), "is held by nothing"))
            if round(old, 6) in holds:
                faults.append((named(location), "is still held by", holds[round(old, 6)]))
        assert faults == []

    reloading(loop, tmp_path / "config.yaml", settings(0), look)


@pytest.mark.parametrize("location", SEEN, ids=named)
def test_what_is_no_number_holds_after_a_reload(loop, tmp_path, location):
    value, seen, after = SEEN[location]

    def look(world, reload):
        reload(BASE)  # which configures logs, as the start of a process does
        assert seen(world) != after
        tree = copy.deepcopy(BASE)
        entry = str(tmp_path / "trace") if value == "<trace>" else value
        if location[-1] == 0:
            placed(tree, location[:-1], [entry])
        else:
            placed(tree, location, entry)
        assert reload(tree).needs_restart == ()
        assert seen(world) == after

    reloading(loop, tmp_path / "config.yaml", BASE, look)
