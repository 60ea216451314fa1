import http.client
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e_support import running_fairgate
from watched import Watched

from tools.console import RUN
from tools.processes import free_port
from tools.synapse import Account, Synapse

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@dataclass(frozen=True)
class Homeserver:
    url: str
    alice: Account
    bob: Account
    accounts: Callable[[Sequence[str]], dict[str, Account]]


@pytest.fixture(scope="session")
def synapse():
    with Synapse(RUN / "test", free_port()) as running:
        accounts = running.accounts(["alice", "bob"])
        yield Homeserver(running.url, **accounts, accounts=running.accounts)


@pytest.fixture(scope="session")
def watched():
    """A second Synapse, for what looks into it or stops it."""
    with Watched() as running:
        yield running


@pytest.fixture(scope="session")
def fairgate(synapse, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fairgate")
    with running_fairgate(folder, synapse.url) as running:
        yield running


@pytest.fixture(scope="session")
def room(synapse):
    """A room with alice and bob in it, made without Fairgate."""
    room_id = ask(synapse.url, synapse.alice, "POST", "/createRoom", {"invite": [synapse.bob.user_id]})[
        "room_id"
    ]
    ask(synapse.url, synapse.bob, "POST", f"/rooms/{room_id}/join", {})
    return room_id


def ask(url, account, method, path, body=None):
    """One client-server call, which must succeed."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=40)
    try:
        connection.request(
            method,
            f"/_matrix/client/v3{path}",
            None if body is None else json.dumps(body),
            {"Authorization": f"Bearer {account.access_token}", "Content-Type": "application/json"},
        )
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    assert response.status == 200, answer
    return answer


@pytest.fixture(scope="session")
def say(synapse, room):
    """Send a message as alice, without Fairgate."""

    def send(text):
        path = f"/rooms/{room}/send/m.room.message/{uuid.uuid4().hex}"
        return ask(synapse.url, synapse.alice, "PUT", path, {"msgtype": "m.text", "body": text})["event_id"]

    return send
