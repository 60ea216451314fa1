"""`make run`: Fairgate on loopback in front of a Synapse of its own, or of `HOMESERVER=…`, until Ctrl-C.

Prints where it listens, who can log in and one command that works. What a person must put right is one line.
"""

import http.client
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tools import client, processes
from tools.console import ROOT, RUN, ToolError, fail, step
from tools.synapse import Account, Synapse
from tools.venvs import ensure_fairgate

LISTEN_PORT, ADMIN_PORT, METRICS_PORT = 8010, 9402, 9403
URL = f"http://127.0.0.1:{LISTEN_PORT}"
CONFIG = ROOT / "config.yaml"
LOG = RUN / "logs" / "fairgate.log"
READY_WITHIN_S = 20.0
STOP_WITHIN_S = 30.0  # connections.drain_seconds and some more
SYNC = "/_matrix/client/v3/sync?timeout=0"


def main() -> int:
    """Run until a signal comes; 0 after a clean stop."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(os.environ.get("HOMESERVER", ""))
    except ToolError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 0


def _run(homeserver: str) -> int:
    ports = {LISTEN_PORT: "Fairgate", ADMIN_PORT: "Fairgate's admin API", METRICS_PORT: "Fairgate's metrics"}
    for port, whose in ports.items():
        processes.demand_free(port, whose)
    if homeserver:
        client.demand_homeserver(homeserver)
    python = ensure_fairgate()
    with ExitStack() as running:
        accounts: dict[str, Account] = {}
        if not homeserver:
            synapse = running.enter_context(Synapse(RUN / "demo"))
            accounts = synapse.accounts(["alice", "bob"])
        child = _start(python, homeserver)
        running.callback(_stop, child)
        with step(f"starting Fairgate at {URL}"):
            processes.wait_until(_ready, READY_WITHIN_S, "Fairgate", child, LOG)
        _tell(homeserver, accounts)
        code = child.wait()
    raise ToolError(f"Fairgate ended by itself with code {code}; its log is {LOG}")


def _start(python: Path, homeserver: str) -> "subprocess.Popen[bytes]":
    LOG.unlink(missing_ok=True)
    env = {"FAIRGATE_HOMESERVER__URL": homeserver} if homeserver else {}
    return processes.start([python.with_name("fairgate"), "run", "--config", CONFIG], LOG, env)


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """Let requests in flight end; another Ctrl-C closes at once."""
    if child.poll() is not None:
        return
    with step("stopping Fairgate"):
        try:
            processes.stop(child, STOP_WITHIN_S)
        except KeyboardInterrupt:
            processes.stop(child, within_s=2)


def _ready() -> bool:
    try:
        status, _ = client.call(f"http://127.0.0.1:{METRICS_PORT}", "GET", "/readyz")
    except (OSError, http.client.HTTPException):
        return False
    return status == http.HTTPStatus.OK


def _tell(homeserver: str, accounts: dict[str, Account]) -> None:
    print(f"\n  Matrix     {URL}   (in front of {homeserver or 'the demo Synapse at http://127.0.0.1:8008'})")
    for account in accounts.values():
        print(f"  account    {account.user_id}  password {account.password}  token {account.access_token}")
    print(f"  status     http://127.0.0.1:{ADMIN_PORT}/v1/status")
    print(f"  metrics    http://127.0.0.1:{METRICS_PORT}/metrics")
    print(f"  log        {LOG}\n")
    if accounts:
        print(f"  curl -H 'Authorization: Bearer {accounts['alice'].access_token}' '{URL}{SYNC}'\n")
    else:
        print(f"  curl {URL}/_matrix/client/versions\n")
    print("Ctrl-C stops it.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
