"""Real clients as child processes, that tell every message they hear, or page of history they read, as it comes."""

import contextlib
import json
import subprocess
import threading
from dataclasses import asdict
from pathlib import Path

from tools.parts import CLIENTS_JS, CLIENTS_VENV

CLIENTS = Path(__file__).parent / "clients"
COMMANDS = {
    "nio": [CLIENTS_VENV / "bin" / "python", CLIENTS / "nio_listener.py"],
    "nio backfill": [CLIENTS_VENV / "bin" / "python", CLIENTS / "nio_backfill.py"],
    "js-sdk": ["node", CLIENTS / "js_listener.mjs"],
}


class Listener:
    """`heard` is what it told so far; of one that syncs the first is "ready"."""

    def __init__(self, child):
        self.child = child
        self.heard = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        for line in self.child.stdout:
            with contextlib.suppress(ValueError):  # what else a library prints
                self.heard.append(json.loads(line))

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self._thread.join(10)
        self.child.stdout.close()


@contextlib.contextmanager
def listening(kind, url, account, **more):
    """Run one until the block is left; `more` is told to it as well."""
    child = subprocess.Popen(
        COMMANDS[kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=CLIENTS_JS,
    )
    asked = {"url": url, "user_id": account.user_id, "device_id": account.device_id}
    with child.stdin as stdin:
        stdin.write(json.dumps({**asked, "access_token": account.access_token, **more}) + "\n")
    listener = Listener(child)
    try:
        yield listener
    finally:
        listener.end()


class Crowd(Listener):
    """Many nio clients under load, in one process: it tells each message it sends, and a report at its end."""

    def __init__(self, url, room, accounts, quiet_room, quiet):
        child = subprocess.Popen(
            [CLIENTS_VENV / "bin" / "python", CLIENTS / "nio_crowd.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        asked = {"url": url, "room": room, "quiet_room": quiet_room}
        asked |= {"people": list(map(asdict, accounts)), "quiet": list(map(asdict, quiet))}
        child.stdin.write(json.dumps(asked) + "\n")
        child.stdin.flush()
        super().__init__(child)

    def report(self, within_s=90):
        """Have it send no more, and hear the rest."""
        self.child.stdin.close()
        assert self.child.wait(within_s) == 0
        self._thread.join(10)
        return self.heard[-1]

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()
        super().end()
