"""A real client pages a room's history as background work while people chat, before a real Synapse that stands still a while.

The room has 150 messages; more: `BACKFILL_EVENTS=5000 .venv/bin/python -m pytest --timeout 600 tests/e2e/test_background.py`
"""

import contextlib
import itertools
import os
import threading
import time
import uuid

import pytest
from e2e_support import running_fairgate, wait_for
from listeners import listening
from tap import Tap
from watched import call

EVENTS = int(os.environ.get("BACKFILL_EVENTS", "150"))
PAGE = max(3, EVENTS // 50)
GATE_TIMEOUT_S = 1.0
PATIENCE_S = 1.5  # of the client that backfills, for a page
STANDSTILL_S = 4.0
CHAT_EVERY_S = 0.1


class Chat:
    """Alice says something ten times a second through Fairgate, one message after the other."""

    def __init__(self, url, account, room):
        self._url, self._account, self._room = url, account, room
        self.said, self.slowest_s, self._over = [], 0.0, threading.Event()
        self._thread = threading.Thread(target=self._talk)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(60)

    def _talk(self):
        while not self._over.wait(CHAT_EVERY_S):
            self.say(f"chat {len(self.said)}")

    def say(self, text):
        path = f"/_matrix/client/v3/rooms/{self._room}/send/m.room.message/{uuid.uuid4().hex}"
        began_at = time.monotonic()
        body = {"msgtype": "m.text", "body": text}
        answer = call(self._url, self._account.access_token, "PUT", path, body)
        assert answer.status == 200, answer.raw
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_at)
        self.said.append(text)


def gate_of(fairgate):
    return fairgate.status()["homeservers"][0]


class Told:
    """The whole story, once; the tests look at its parts."""

    def __init__(self, watched, folder):
        people = watched.accounts("alice", "bob", "carol")
        alice, bob, carol = people.values()
        self.old, self.new = watched.room(alice, carol), watched.room(alice, bob)
        self.history = watched.fill(alice, self.old, EVENTS)
        settings = {"background": {"timeout_seconds": {"default": GATE_TIMEOUT_S}}}
        with contextlib.ExitStack() as stack:
            self.tap = stack.enter_context(Tap(watched.port))
            self.fairgate = stack.enter_context(running_fairgate(folder, self.tap.url, **settings))
            hearer = stack.enter_context(listening("nio", self.fairgate.url, bob))
            wait_for(lambda: hearer.heard == ["ready"], 30, "bob to listen")
            self.chat = Chat(self.fairgate.url, alice, self.new)
            asks = {"room": self.old, "page": PAGE, "patience": PATIENCE_S}
            backfill = listening("nio backfill", self.fairgate.url, carol, **asks)
            with self.chat, backfill as backfill:
                wait_for(lambda: len(backfill.heard) >= 5, 30, "the backfill to begin")
                with watched.paused():
                    self._stand_still(backfill)
                self.continued_at = time.monotonic()
                wait_for(lambda: backfill.heard[-1] == "done", 60 + EVENTS / 20, "the backfill to end")
                self.pages = backfill.heard[:-1]
            self.chat.say("end")
            wait_for(lambda: hearer.heard[-1] == "end", 20, "bob to hear all")
            self.heard = hearer.heard[1:]
            self.at_last = gate_of(self.fairgate)
            self.refusals = self.fairgate.lines("refused")

    def _stand_still(self, backfill):
        began_at = time.monotonic()
        self.during = wait_for(
            lambda: (gate := gate_of(self.fairgate))["held"] and gate, 5, "the gate to notice"
        )
        pages, self.given_then = len(backfill.heard), len(self.tap.of("/messages"))
        self.waited = 0
        while time.monotonic() - began_at < STANDSTILL_S:
            self.waited = max(self.waited, gate_of(self.fairgate)["waiting"])
            time.sleep(0.05)
        self.pages_meanwhile = len(backfill.heard) - pages
        self.given_meanwhile = len(self.tap.of("/messages")) - self.given_then


@pytest.fixture(scope="module")
def told(watched, tmp_path_factory):
    return Told(watched, tmp_path_factory.mktemp("background"))


def test_the_backfill_pauses_as_soon_as_a_page_is_late_and_the_homeserver_gets_no_more_of_it(told):
    assert (told.during["limit"], told.during["active"], told.during["held"]) == (1, 0, 1)
    assert told.waited == 1, "its next attempts wait at the gate, one after the other"
    assert told.given_meanwhile == 0
    assert told.pages_meanwhile == 0


def test_it_resumes_by_itself_and_reads_every_message_once(told):
    assert [body for page in told.pages for body in page] == told.history
    next_page = [one.began_at for one in told.tap.of("/messages")][told.given_then]
    assert next_page - told.continued_at < 3, "as soon as the homeserver was done with the one it had"
    assert (told.at_last["held"], told.at_last["breaker"]["state"]) == (0, "admitting")
    assert told.at_last["cuts_total"] >= 1


def test_the_chat_loses_nothing_and_nobody_is_refused(told):
    assert told.heard == told.chat.said
    assert STANDSTILL_S - 1 < told.chat.slowest_s < STANDSTILL_S + 2, "what was said meanwhile only waited"
    assert told.refusals == []


def test_the_homeserver_never_has_more_than_one_page_of_it_and_never_its_class(told):
    pages = told.tap.of("/messages")
    assert all(after.began_at >= before.ended_at for before, after in itertools.pairwise(pages))
    assert not any("fairgate-class" in one.fields for one in pages)
