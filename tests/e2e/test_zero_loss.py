"""Reloads and restarts while real clients sync, send, upload and download through Fairgate before a real Synapse."""

import asyncio
import collections
import contextlib
import http.client
import json
import random
import signal
from dataclasses import dataclass

import aiohttp
import pytest
from conftest import ask
from e2e_support import RawUpstream, running_fairgate, wait_for
from listeners import Crowd
from supervisor import Supervisor

TALKING = ("alice", "bob", "carol", "dan")
QUIET = ("erin", "frank")
BETWEEN = 25  # messages
IDLERS = 150
IDLE_AT_MOST_S = 3.0


@dataclass(frozen=True)
class People:
    """Who talks in a room, and who waits in another one, where the first of the talkers is too."""

    room: str
    talking: list
    quiet_room: str
    quiet: list


@pytest.fixture
def people(synapse):
    accounts = synapse.accounts([*TALKING, *QUIET])
    talking, quiet = [accounts[name] for name in TALKING], [accounts[name] for name in QUIET]
    return People(room_of(synapse, talking), talking, room_of(synapse, [talking[0], *quiet]), quiet)


def room_of(synapse, accounts):
    first, *others = accounts
    wanted = {"invite": [one.user_id for one in others]}
    room = ask(synapse.url, first, "POST", "/createRoom", wanted)["room_id"]
    for one in others:
        ask(synapse.url, one, "POST", f"/rooms/{room}/join", {})
    return room


@contextlib.contextmanager
def crowd(url, people):
    running = Crowd(url, people.room, people.talking, people.quiet_room, people.quiet)
    try:
        wait_for(lambda: running.heard, 20, "all have synced")
        yield running
    finally:
        running.end()


def more_messages(running, number=BETWEEN):
    wanted = len(running.heard) + number
    wait_for(lambda: len(running.heard) >= wanted, 60, "the load goes on")


def change(fairgate, **settings):
    """Write the settings file anew."""
    path = fairgate.folder / "config.yaml"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def by_signal(fairgate):
    fairgate.child.send_signal(signal.SIGHUP)


def by_request(fairgate):
    connection = http.client.HTTPConnection("127.0.0.1", fairgate.admin_port, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/reload")
        assert connection.getresponse().status == 200


def by_itself(_):
    """The file is looked at every two seconds."""


def assert_everybody_heard_everything_once(report):
    wanted = dict.fromkeys(report["sent"], 1)
    for heard in report["heard"]:
        assert heard == wanted, {body: heard.get(body) for body in wanted if heard.get(body) != 1}
    assert all(heard == {"end": 1} for heard in report["quiet"]), report["quiet"]


def reloads(fairgate):
    """How often settings were read again that had changed."""
    return sum(bool(line["changed"]) for line in fairgate.lines("settings read again"))


def test_no_request_fails_when_settings_are_read_again_under_load(synapse, people, tmp_path):
    with running_fairgate(tmp_path, synapse.url) as fairgate, crowd(fairgate.url, people) as running:
        for workers, tell in enumerate((by_signal, by_request, by_itself) * 2, 8):
            more_messages(running)
            change(fairgate, lanes={"requests": {"workers": workers}})
            tell(fairgate)
            wait_for(lambda wanted=workers - 7: reloads(fairgate) >= wanted, 10, "a reload")
        more_messages(running)
        report = running.report()

    assert report["failed"] == []
    assert_everybody_heard_everything_once(report)


def assert_only_long_polls_ended(report):
    """Those of the quiet room had nothing to tell; nio asks again by itself."""
    assert report["failed"], "no long poll was under way"
    assert {kind for kind, _ in report["failed"]} <= {"poll"}, report["failed"]
    assert {what for _, what in report["failed"]} <= {"503 stopping"}, report["failed"]
    assert_everybody_heard_everything_once(report)


def test_a_restart_under_load_ends_long_polls_and_nothing_else(synapse, people, tmp_path):
    with Supervisor(tmp_path, synapse.url) as supervisor:
        fairgate = supervisor.start()
        with crowd(fairgate.url, people) as running:
            for _ in range(3):
                more_messages(running)
                supervisor.stop(
                    fairgate, within_s=15
                )  # of 25: newcomers wait, so long polls are not waited for
                fairgate = supervisor.start()
            more_messages(running)
            report = running.report()

    assert_only_long_polls_ended(report)


@pytest.mark.long
def test_the_next_process_may_serve_already_while_the_last_one_drains(synapse, people, tmp_path):
    with Supervisor(tmp_path, synapse.url, connections={"drain_seconds": 5}) as supervisor:
        fairgate = supervisor.start()
        with crowd(fairgate.url, people) as running:
            for _ in range(3):
                more_messages(running)
                last, fairgate = fairgate, supervisor.start()
                supervisor.begin_stop(last)
                wait_for(fairgate.ready, 10, "the profile is known")
                assert all(fairgate.ready() for _ in range(10)), "the one that leaves answers no probes"
                supervisor.stop(last)
            more_messages(running)
            report = running.report()

    assert_only_long_polls_ended(report)


async def ask_now_and_then(url, number, tally):
    """One client that keeps its connection, and never asks twice for what failed: POSTs are not repeated."""
    chance = random.Random(number)
    async with aiohttp.ClientSession() as session:
        while not tally["over"]:
            await asyncio.sleep(chance.random() * IDLE_AT_MOST_S)
            try:
                async with session.post(f"{url}/_matrix/client/v3/createRoom", data=b"{}") as answer:
                    await answer.read()
                    tally["answered" if answer.status == 200 else f"{answer.status}"] += 1
            except aiohttp.ClientError as error:
                tally[repr(error)] += 1


async def load_with_restarts(supervisor, tally):
    fairgate = await asyncio.to_thread(supervisor.start)
    clients = [asyncio.create_task(ask_now_and_then(fairgate.url, n, tally)) for n in range(IDLERS)]
    for _ in range(3):
        enough = tally["answered"] + IDLERS
        await asyncio.to_thread(wait_for, lambda wanted=enough: tally["answered"] >= wanted, 30, "the load")
        last, fairgate = fairgate, await asyncio.to_thread(supervisor.start)
        await asyncio.to_thread(supervisor.stop, last)
    tally["over"] = 1
    await asyncio.gather(*clients)


def test_connections_that_idle_between_requests_lose_none_when_they_are_closed(tmp_path):
    def serve(connection):
        while connection.read_head():
            list(connection.read_body(2))
            connection.answer()

    tally = collections.Counter()
    settings = {"clients": {"exempt": {"networks": ["127.0.0.0/8"]}}}
    with RawUpstream(serve) as upstream, Supervisor(tmp_path, upstream.url, **settings) as supervisor:
        asyncio.run(load_with_restarts(supervisor, tally))

    assert tally.keys() == {"answered", "over"}, tally
