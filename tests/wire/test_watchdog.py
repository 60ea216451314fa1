"""A watchdog hears of the event loop's turns, and of nothing else."""

import asyncio
import os
import socket

import proxy.app
from proxy.app import Application
from proxy.config.settings import Settings
from proxy.supervisor.notify import Notify

TREE = {
    "listen": [{"address": "127.0.0.1:0"}],
    "admin": {"listen": "127.0.0.1:0"},
    "metrics": {"listen": "127.0.0.1:0"},
    "homeserver": {"profile": "generic"},
}


def test_the_turns_of_the_loop_are_what_a_watchdog_hears_of(loop, tmp_path, monkeypatch):
    monkeypatch.setattr(proxy.app, "_TURN_S", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.setblocking(False)
        variables = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "20000",
            "WATCHDOG_PID": str(os.getpid()),
        }

        async def run():
            at_once = asyncio.Event()
            at_once.set()
            application = Application(Settings.model_validate(TREE), notify=Notify(variables))
            await application.start()
            running = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(10):
                    return [await running.sock_recv(told, 4096) for _ in range(4)]
            finally:
                await application.stop(at_once)

        ready, *alive = loop.run_until_complete(run())
    assert ready.startswith(b"READY=1")
    assert alive == [b"WATCHDOG=1"] * 3
