"""Two processes with one configuration: the second must not take what the first one has."""

import asyncio
import socket

import pytest

from proxy.app import Application, StartError
from proxy.config.settings import Settings

LISTENERS = {
    "clients": lambda place: {"listen": [{"address": "127.0.0.1:0"}, {"address": place}]},
    "admin": lambda place: {"admin": {"listen": place}},
    "metrics": lambda place: {"metrics": {"listen": place}},
    "egress": lambda place: {"egress": {"listen": {"address": place}}},
}


async def second_start(settings):
    """Start with these settings what must fail; give why."""
    free = {"listen": [{"address": "127.0.0.1:0"}], "admin": {"listen": "127.0.0.1:0"}}
    whole = {**free, "metrics": {"listen": "127.0.0.1:0"}, "homeserver": {"profile": "generic"}, **settings}
    second, at_once = Application(Settings.model_validate(whole)), asyncio.Event()
    at_once.set()
    try:
        with pytest.raises(StartError) as failed:
            await second.start()
    finally:
        await second.stop(at_once)
    return str(failed.value)


def is_listened_at(path):
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(path) == 0


@pytest.mark.parametrize("kind", LISTENERS)
def test_a_second_start_does_not_take_a_unix_socket_that_is_listened_at(in_a_world, tmp_path, kind):
    path = str(tmp_path / "s.sock")
    settings = LISTENERS[kind](f"unix:{path}")

    async def tell(_):
        assert f"unix:{path}" in (why := await second_start(settings))
        assert why.endswith("Address already in use")
        assert is_listened_at(path)

    in_a_world(tell, **settings)


@pytest.mark.parametrize("kind", LISTENERS)
def test_a_unix_socket_that_a_dead_process_left_is_taken(in_a_world, tmp_path, kind):
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(path)

    async def tell(_):
        assert is_listened_at(path)

    in_a_world(tell, **LISTENERS[kind](f"unix:{path}"))


def test_a_start_that_fails_at_the_operators_listeners_opened_none_for_clients(in_a_world, tmp_path):
    path = tmp_path / "s.sock"

    async def tell(world):
        taken = world.application.operators.metrics_address
        why = await second_start({"listen": [{"address": f"unix:{path}"}], "metrics": {"listen": taken}})
        assert taken in why
        assert not path.exists()

    in_a_world(tell)
