import os
import socket

import pytest

from proxy.supervisor.notify import Notify


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    """Who is told, and the variable that says where it is."""
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.settimeout(5)
        told.bind(name if request.param == "path" else f"\0{name}")
        yield told, {"NOTIFY_SOCKET": name if request.param == "path" else f"@{name}"}


def test_each_state_is_one_datagram(systemd):
    told, environment = systemd
    notify = Notify(environment)
    assert environment == {}
    notify.ready("Serving")
    notify.stopping()
    notify.reloading()
    assert told.recv(4096) == b"READY=1\nSTATUS=Serving"
    assert told.recv(4096) == b"STOPPING=1\nSTATUS=Draining"
    state, when = told.recv(4096).split(b"\n")
    assert state == b"RELOADING=1"
    assert int(when.removeprefix(b"MONOTONIC_USEC=")) > 0


def test_where_nobody_asks_nobody_is_told(tmp_path):
    Notify({}).ready("Serving")
    Notify({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("Serving")


def test_a_watchdog_hears_twice_within_its_time(systemd):
    told, environment = systemd
    notify = Notify({**environment, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())})
    for quarter in range(4 * 60):
        notify.alive(1000.0 + quarter / 4)
    notify.stopping()
    heard = []
    while (state := told.recv(4096)) == b"WATCHDOG=1":
        heard.append(state)
    assert len(heard) == 4
    assert state.startswith(b"STOPPING=1")


@pytest.mark.parametrize(
    "variables",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}],
)
def test_where_no_watchdog_waits_for_this_process_none_hears(systemd, variables):
    told, environment = systemd
    environment |= variables
    notify = Notify(environment)
    assert environment == {}
    notify.alive(1000.0)
    notify.stopping()
    assert told.recv(4096).startswith(b"STOPPING=1")
