"""A real Synapse that tells of itself: own metrics, guests, an appservice, refresh tokens; it can be paused and restarted."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import sqlite3
import time
import urllib.request
import uuid
from dataclasses import dataclass

from tools.console import RUN
from tools.processes import free_port
from tools.synapse import Synapse

AS_TOKEN = "as-secret-token-of-the-bridge"
BOT = "@bridge_bot:localhost"
GHOSTS = "@bridge_ghost_"
FOLDER = RUN / "watched"
_BRIDGE = {
    "id": "bridge",
    "url": None,
    "as_token": AS_TOKEN,
    "hs_token": "hs-secret-token-of-the-bridge",
    "sender_localpart": "bridge_bot",
    "rate_limited": False,
    "namespaces": {"users": [{"exclusive": True, "regex": f"{GHOSTS}.*"}], "aliases": [], "rooms": []},
}
_IN_FLIGHT = re.compile(r"^synapse_http_server_in_flight_requests_count\{(.*)\} ([0-9.]+)$", re.MULTILINE)
#: A filter for syncs that no message ends.
NO_ROOMS = '{"room":{"rooms":[]},"presence":{"types":[]},"account_data":{"types":[]}}'.replace('"', "%22")
_GENEROUS = {"per_second": 10_000, "burst_count": 100_000}


@dataclass(frozen=True)
class Answer:
    """What came back: `body` is JSON where it can be."""

    status: int
    fields: http.client.HTTPMessage
    raw: bytes

    @property
    def body(self):
        return json.loads(self.raw)

    @property
    def errcode(self):
        return self.body.get("errcode")

    @property
    def reason(self):
        """Why Fairgate answered by itself, None where it did not."""
        return self.fields.get("Fairgate-Reason")


def call(url, token, method, path, body=None, *, source="127.0.0.1", within_s=40, **fields):
    """One request over a connection of its own; `body` is JSON unless it is bytes. Names of `fields` have `_` for `-`."""
    connection = http.client.HTTPConnection(
        url.removeprefix("http://"), timeout=within_s, source_address=(source, 0)
    )
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


class Watched:
    """See the module."""

    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        bridge = FOLDER / "bridge.yaml"
        FOLDER.mkdir(parents=True, exist_ok=True, mode=0o700)
        bridge.write_text(json.dumps(_BRIDGE))
        names = ["client", "federation", "media", "metrics"]
        listener = {"port": self.port, "bind_addresses": ["127.0.0.1"], "type": "http", "x_forwarded": True}
        self._synapse = Synapse(
            FOLDER,
            self.port,
            {
                "listeners": [{**listener, "resources": [{"names": names}]}],
                "enable_metrics": True,
                "allow_guest_access": True,
                "app_service_config_files": [str(bridge)],
                "bcrypt_rounds": 4,
                "rc_registration": _GENEROUS,
                "max_pending_media_uploads": 100_000,
                "refreshable_access_token_lifetime": "2s",
            },
        )

    def __enter__(self):
        self._synapse.__enter__()
        return self

    def __exit__(self, *_):
        self._synapse.__exit__()

    def restart(self, meanwhile=lambda: None):
        """Stop it, do something while it is away, start it at the same port."""
        self._synapse.__exit__()
        meanwhile()
        self._synapse.__enter__()

    @contextlib.contextmanager
    def paused(self):
        """The process stands still: it takes connections and answers nothing."""
        pid = int((FOLDER / "pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def accounts(self, *names):
        """Accounts by name, each with a token that works."""
        return self._synapse.accounts(names)

    def log_in(self, account, device=None, **wanted):
        """Log in once more; what the homeserver says."""
        identifier = {"type": "m.id.user", "user": account.user_id}
        body = {"type": "m.login.password", "identifier": identifier, "password": account.password, **wanted}
        if device is not None:
            body["device_id"] = device
        return self.ask(None, "POST", "/_matrix/client/v3/login", body)

    def many_tokens(self, number):
        """Tokens of as many accounts, made in its database: by its API each would take 40 ms."""
        store = sqlite3.connect(FOLDER / "homeserver.db", timeout=20)
        with contextlib.closing(store), store:
            tokens = dict(
                store.execute("SELECT user_id, token FROM access_tokens WHERE user_id LIKE '@many%'")
            )
            last = store.execute("SELECT max(id) FROM access_tokens").fetchone()[0]
            for count in range(len(tokens), number):
                user, last = f"@many{count}:localhost", last + 1
                tokens[user] = f"many-secret-token-{uuid.uuid4().hex}"
                store.execute(
                    "INSERT INTO users (name, creation_ts, admin, is_guest, deactivated) VALUES (?, 1, 0, 0, 0)",
                    (user,),
                )
                store.execute(
                    "INSERT INTO devices (user_id, device_id, display_name, hidden) VALUES (?, 'D', 'D', 0)",
                    (user,),
                )
                store.execute(
                    "INSERT INTO access_tokens (id, user_id, token, device_id) VALUES (?, ?, ?, 'D')",
                    (last, user, tokens[user]),
                )
        return list(tokens.values())[:number]

    def ask(self, token, method, path, body=None):
        """One call without Fairgate, which must succeed; the JSON of its answer."""
        answer = call(self.url, token, method, path, body)
        assert answer.status == 200, answer.raw
        return answer.body

    def room(self, *accounts):
        """A new room of the first account, with the others in it."""
        first, *others = accounts
        invite = [account.user_id for account in others]
        room = self.ask(first.access_token, "POST", "/_matrix/client/v3/createRoom", {"invite": invite})
        for account in others:
            self.ask(account.access_token, "POST", f"/_matrix/client/v3/rooms/{room['room_id']}/join", {})
        return room["room_id"]

    def say(self, account, room, text):
        """Send a message."""
        path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{uuid.uuid4().hex}"
        body = {"msgtype": "m.text", "body": text}
        return self.ask(account.access_token, "PUT", path, body)["event_id"]

    def fill(self, account, room, number):
        """Send so many messages, 16 at a time, which Synapse stores together; the bodies of all, the newest first."""
        with concurrent.futures.ThreadPoolExecutor(16) as senders:
            list(senders.map(lambda count: self.say(account, room, f"message {count}"), range(number)))
        bodies, start = [], ""
        while start is not None:
            path = f"/_matrix/client/v3/rooms/{room}/messages?dir=b&limit=500{start}"
            page = self.ask(account.access_token, "GET", path)
            found = (event["content"].get("body") for event in page["chunk"])
            bodies += [body for body in found if body is not None]
            start = f"&from={page['end']}" if "end" in page else None
        assert len(bodies) == number
        return bodies

    def position(self, account):
        """Where a sync goes on from, once a poll from there finds nothing for a while."""
        path = f"/_matrix/client/v3/sync?filter={NO_ROOMS}&timeout="
        here = self.ask(account.access_token, "GET", f"{path}0")["next_batch"]
        for _ in range(20):
            began_at = time.monotonic()
            here = self.ask(account.access_token, "GET", f"{path}150&since={here}")["next_batch"]
            if time.monotonic() - began_at > 0.15:
                return here
        raise AssertionError(f"{account.user_id} always has something new")

    def in_flight(self, servlet):
        """How many requests of a servlet it works on, by its own metrics."""
        with urllib.request.urlopen(f"{self.url}/_synapse/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return sum(
            int(float(value))
            for labels, value in _IN_FLIGHT.findall(text)
            if f'servlet="{servlet}"' in labels
        )
