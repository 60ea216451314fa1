"""A real Synapse on loopback with SQLite: made on first use in a folder of its own, kept afterwards.

Its venv is shared by all folders. The folder holds configuration, keys, database, media and `tokens.json`
(0600). One owner a folder, by a lock; a Synapse left by an owner that was killed is stopped first.
"""

import argparse
import fcntl
import hashlib
import hmac
import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self

from tools import client, processes
from tools.console import RUN, ToolError, fail, run_logged, step
from tools.venvs import ensure_venv

VENV = RUN / "synapse-venv"
REQUIREMENTS = ("matrix-synapse>=1.163,<2",)
READY_WITHIN_S = 90.0
STOP_WITHIN_S = 10.0
GENEROUS = {"per_second": 10_000, "burst_count": 100_000}


@dataclass(frozen=True)
class Account:
    """One account of ours; `access_token` is good for as long as the Synapse runs."""

    user_id: str
    password: str
    device_id: str
    access_token: str


def install() -> Path:
    """Make the shared venv if it is not there; returns its Python."""
    return ensure_venv(VENV, REQUIREMENTS, "installing Synapse, about a minute the first time")


class Synapse:
    """Use as a context manager: inside it runs and answers at `url`."""

    def __init__(
        self,
        folder: Path,
        port: int = 8008,
        extra: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._extra = dict(extra or {})  # keys of homeserver.yaml that win over ours
        self._environment = environment
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "output.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        python = install()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_lock()
        try:
            self._stop_orphan()
            processes.demand_free(self.port, "Synapse")
            config = self._write_config()
            command: list[str | Path] = [python, "-m", "synapse.app.homeserver", "--config-path", config]
            if not (self.folder / "signing.key").exists():
                with step("making Synapse's keys"):
                    run_logged([*command, "--generate-keys"], self.folder / "keys.log", self.folder)
            self._log.write_bytes(b"")
            with step(f"starting Synapse at {self.url}"):
                self._child = processes.start(command, self._log, self._environment, cwd=self.folder)
                (self.folder / "pid").write_text(str(self._child.pid))
                processes.wait_until(self._healthy, READY_WITHIN_S, "Synapse", self._child, self._log)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            processes.stop(self._child, STOP_WITHIN_S)
            self._child = None
        (self.folder / "pid").unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def accounts(self, names: Sequence[str]) -> dict[str, Account]:
        """Return an account with a working token for each name; makes and logs in where needed."""
        path = self.folder / "tokens.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        known = {name: Account(**fields) for name, fields in kept.items()}
        fresh = {name: self._account(name, known.get(name)) for name in names}
        _write_private(path, json.dumps({name: asdict(one) for name, one in {**known, **fresh}.items()}))
        return fresh

    def _account(self, name: str, known: Account | None) -> Account:
        if known is not None:
            status, _ = client.call(
                self.url, "GET", "/_matrix/client/v3/account/whoami", token=known.access_token
            )
            if status == http.HTTPStatus.OK:
                return known
        password = known.password if known else secrets.token_urlsafe(12)
        with step(f"registering {name}"):
            if known is None:
                self._register(name, password)
            return self._log_in(name, password)

    def _register(self, name: str, password: str) -> None:
        _, got = client.call(self.url, "GET", "/_synapse/admin/v1/register")
        nonce = str(got.get("nonce", ""))
        said = b"\0".join(part.encode() for part in (nonce, name, password, "notadmin"))
        mac = hmac.new(self._secrets()["registration_shared_secret"].encode(), said, hashlib.sha1)
        body = {
            "nonce": nonce,
            "username": name,
            "password": password,
            "admin": False,
            "mac": mac.hexdigest(),
        }
        status, answer = client.call(self.url, "POST", "/_synapse/admin/v1/register", body)
        if status != http.HTTPStatus.OK:
            raise ToolError(
                f"Synapse did not register {name}: {status} {answer.get('error')}; remove {self.folder}"
            )

    def _log_in(self, name: str, password: str) -> Account:
        identifier = {"type": "m.id.user", "user": name}
        body = {"type": "m.login.password", "identifier": identifier, "password": password}
        status, answer = client.call(self.url, "POST", "/_matrix/client/v3/login", body)
        if status != http.HTTPStatus.OK:
            raise ToolError(
                f"Synapse did not log {name} in: {status} {answer.get('error')}; remove {self.folder}"
            )
        return Account(answer["user_id"], password, answer["device_id"], answer["access_token"])

    def _healthy(self) -> bool:
        try:
            return client.call(self.url, "GET", "/health")[0] == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False

    def _take_lock(self) -> None:
        self._lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            self._lock = None
            raise ToolError(f"{self.folder} is in use by another run") from error

    def _stop_orphan(self) -> None:
        try:
            pid = int((self.folder / "pid").read_text())
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return
        if str(self.folder / "homeserver.yaml").encode() not in arguments:
            return
        with step("stopping the Synapse of an earlier run"):
            os.kill(pid, signal.SIGTERM)
            processes.wait_until(lambda: not _alive(pid), STOP_WITHIN_S, "its end")

    def _secrets(self) -> dict[str, str]:
        path = self.folder / "secrets.json"
        if not path.exists():
            names = ("registration_shared_secret", "macaroon_secret_key", "form_secret")
            _write_private(path, json.dumps({name: secrets.token_hex(24) for name in names}))
        kept: dict[str, str] = json.loads(path.read_text())
        return kept

    def _write_config(self) -> Path:
        path = self.folder / "homeserver.yaml"
        tree = _config(self.folder, self.port) | self._secrets() | self._extra
        _write_private(path, json.dumps(tree, indent=2))
        (self.folder / "log.yaml").write_text(json.dumps(_LOGGING))  # JSON is YAML
        return path


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"level": "WARNING", "handlers": ["console"]},
}


def _config(folder: Path, port: int) -> dict[str, Any]:
    resources = [{"names": ["client", "federation", "media"]}]
    listener = {"port": port, "bind_addresses": ["127.0.0.1"], "type": "http", "x_forwarded": True}
    limits = (
        "message",
        "registration",
        "joins_per_room",
        "admin_redaction",
        "3pid_validation",
        "media_create",
    )
    pairs = {
        "rc_login": ("address", "account", "failed_attempts"),
        "rc_joins": ("local", "remote"),
        "rc_invites": ("per_room", "per_user", "per_issuer"),
    }
    return {
        "server_name": "localhost",
        "listeners": [{**listener, "resources": resources}],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "media_store_path": str(folder / "media"),
        "signing_key_path": str(folder / "signing.key"),
        "log_config": str(folder / "log.yaml"),
        "report_stats": False,
        "trusted_key_servers": [],
        "max_upload_size": "50M",
        "presence": {"enabled": False},
        "push": {"jitter_delay": "0s"},
        "experimental_features": {"msc3575_enabled": True},
        **{f"rc_{name}": GENEROUS for name in limits},
        **{name: dict.fromkeys(kinds, GENEROUS) for name, kinds in pairs.items()},
    }


def _write_private(path: Path, text: str) -> None:
    aside = path.with_name(f"{path.name}.new")
    aside.unlink(missing_ok=True)
    aside.touch(mode=0o600)
    aside.write_text(text)
    aside.replace(path)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main() -> int:
    """Run one in the foreground until a signal comes."""
    parser = argparse.ArgumentParser(description="Run a real Synapse on loopback.")
    parser.add_argument("--folder", type=Path, default=RUN / "synapse")
    parser.add_argument("--port", type=int, default=8008)
    parser.add_argument("accounts", nargs="*", default=["alice", "bob"])
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Synapse(arguments.folder.resolve(), arguments.port) as synapse:
            for account in synapse.accounts(arguments.accounts).values():
                print(f"{account.user_id} {account.access_token}", flush=True)
            while True:
                time.sleep(3600)
    except ToolError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
