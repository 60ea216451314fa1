"""Long polls by account before a real Synapse: clients that meet a budget, polls that are abandoned, what Synapse then does."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import socket
import time

import pytest
from e2e_support import running_fairgate, wait_for
from listeners import listening
from tap import Tap
from watched import NO_ROOMS, call

SYNC = "/_matrix/client/v3/sync"
SLIDING = "/_matrix/client/unstable/org.matrix.simplified_msc3575/sync"
REFUSED_FOR_S = 5
numbers = itertools.count()


@pytest.fixture(scope="module")
def tap(watched):
    with Tap(watched.port) as tap:
        yield tap


@contextlib.contextmanager
def poll(port, token, target, *, source="127.0.0.1", body=None):
    """A long poll whose answer nobody reads yet; left with the block."""
    with socket.create_connection(("127.0.0.1", port), source_address=(source, 0)) as sock:
        sock.sendall(poll_bytes(token, target, body))
        yield sock


def poll_bytes(token, target, body=None):
    line = f"GET {target}" if body is None else f"POST {target}"
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{length}\r\n"
    return head.encode() + (body or "").encode()


def answer_from(sock):
    """Status and body of a poll."""
    response = http.client.HTTPResponse(sock)
    response.begin()
    return response.status, response.read()


def marked(since, timeout_ms):
    """A target that can be told from all others; Synapse does not mind the mark."""
    mark = f"mark={next(numbers)}-"
    return f"{SYNC}?since={since}&timeout={timeout_ms}&filter={NO_ROOMS}&{mark}", mark


def arrived(tap, mark):
    return any(mark in one.target for one in tap.of(SYNC))


# Polls that are abandoned.


def test_synapse_goes_on_with_abandoned_polls_until_their_timeout(watched):
    """Why the profile does not list them as ending with their client, although Synapse marks /sync as cancellable."""
    erin = watched.accounts("erin")["erin"]
    pos = watched.ask(erin.access_token, "POST", f"{SLIDING}?timeout=0", {"conn_id": "abandoned"})["pos"]
    since = watched.position(erin)
    polls = {
        "SyncRestServlet": (f"{SYNC}?since={since}&timeout=1500&filter={NO_ROOMS}", None),
        "EventStreamRestServlet": (f"/_matrix/client/v3/events?from={since}&timeout=1500", None),
        "SlidingSyncRestServlet": (f"{SLIDING}?pos={pos}&timeout=1500", '{"conn_id":"abandoned"}'),
    }
    began_at = time.monotonic()
    for servlet, (target, body) in polls.items():
        with poll(watched.port, erin.access_token, target, body=body):
            wait_for(lambda servlet=servlet: watched.in_flight(servlet) == 1, 5, servlet)
    for servlet in polls:
        wait_for(lambda servlet=servlet: watched.in_flight(servlet) == 0, 5, f"the end of {servlet}")
        assert time.monotonic() - began_at > 1.4, servlet


@pytest.fixture(scope="module")
def small(tap, tmp_path_factory):
    """Fairgate with the budgets of a small homeserver: 4 polls of an account, 2 of a device."""
    with running_fairgate(tmp_path_factory.mktemp("small"), tap.url, profile="generic") as fairgate:
        yield fairgate


@pytest.fixture(scope="module")
def roomy(tap, tmp_path_factory):
    """Fairgate as it is by itself before a Synapse."""
    with running_fairgate(tmp_path_factory.mktemp("roomy"), tap.url) as fairgate:
        yield fairgate


CHANGE_S = 0.15  # a phone that changes its network every 6 s with polls of 30 s, 40 times as fast
ROAM_MS = int(30_000 * CHANGE_S / 6)


def roam(fairgate, tap, account, since, *, silently):
    """Poll from one address after the other; the connections that were left ('silently': not even closed)."""
    with contextlib.ExitStack() as left:
        for number in range(20):
            target, mark = marked(since, ROAM_MS)
            source = f"127.9.0.{number + 1}"
            left.enter_context(poll(fairgate.port, account.access_token, target, source=source))
            wait_for(lambda mark=mark: arrived(tap, mark), 1, "the poll at the homeserver")
            time.sleep(CHANGE_S)
            if not silently:
                left.pop_all().close()
    return fairgate.lines("refused")


def test_a_phone_that_changes_network_ten_times_a_minute_is_never_refused(watched, tap, small, roomy):
    """Where it closes what it leaves, even with small budgets; where its connections just die, with Synapse's."""
    people = watched.accounts("erin", "frank")
    here = {account: watched.position(account) for account in people.values()}
    erin, frank = people.values()
    assert roomy.status()["profile"]["name"] == "synapse"
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        closing = both.submit(roam, small, tap, erin, here[erin], silently=False)
        dying = both.submit(roam, roomy, tap, frank, here[frank], silently=True)
        assert closing.result() == []
        assert dying.result() == []


def test_who_abandons_200_polls_is_refused_and_the_count_of_ghosts_is_synapses_own(watched, tap, small):
    people = watched.accounts("erin", "frank")
    erin, frank = people["erin"], people["frank"]
    wait_for(lambda: small.status()["waits"]["ghosts"] == 0, 10, "what was left before")
    wait_for(lambda: watched.in_flight("SyncRestServlet") == 0, 10, "also there")
    refused, since = len(small.lines("refused")), watched.position(erin)
    passed = 0
    for _ in range(200):
        target, mark = marked(since, 5_000)
        with poll(small.port, erin.access_token, target) as sock:
            sock.setblocking(False)
            answered = wait_for(lambda mark=mark, sock=sock: outcome(tap, mark, sock), 5, "the poll's fate")
        if answered == "arrived":
            passed += 1
            wait_for(lambda: small.status()["waits"]["live"] == 0, 5, "it to be noticed")

    assert passed == 8, "as many ghosts as the account may have polls, and as many again that count as live"
    assert [line["reason"] for line in small.lines("refused")[refused:]] == ["sync_account"] * 192
    assert small.status()["waits"]["ghosts"] == 8
    assert watched.in_flight("SyncRestServlet") == 8
    assert call(small.url, frank.access_token, "GET", f"{SYNC}?timeout=0&filter={NO_ROOMS}").status == 200

    wait_for(lambda: small.status()["waits"]["ghosts"] == 0, 15, "the homeserver to end them")
    assert watched.in_flight("SyncRestServlet") == 0
    target, _ = marked(since, 1)
    assert call(small.url, erin.access_token, "GET", target).status == 200


def outcome(tap, mark, sock):
    if arrived(tap, mark):
        return "arrived"
    with contextlib.suppress(BlockingIOError):
        if sock.recv(4096).startswith(b"HTTP/1.1 429"):
            return "refused"
    return None


def test_a_new_token_of_a_device_makes_no_new_budget(watched, tap, small):
    erin = watched.accounts("erin")["erin"]
    tokens = [watched.log_in(erin, "TABLET")["access_token"] for _ in range(3)]
    since = watched.position(erin)
    with contextlib.ExitStack() as stack:
        for token in tokens[:2]:
            target, mark = marked(since, 4000)
            stack.enter_context(poll(small.port, token, target))
            wait_for(lambda mark=mark: arrived(tap, mark), 5, "the poll at the homeserver")
        third = call(small.url, tokens[2], "GET", marked(since, 4000)[0])
    assert (third.status, third.reason) == (429, "sync_device")
    assert 1000 <= third.body["retry_after_ms"] <= 60_000


# Sliding sync.


def test_three_sliding_sync_connections_of_a_device_work_side_by_side(watched, roomy):
    people = watched.accounts("alice", "grace")
    alice, grace = people["alice"], people["grace"]
    room = watched.room(alice, grace)
    rooms = {"lists": {"all": {"ranges": [[0, 20]], "required_state": [], "timeline_limit": 5}}}
    keys = {"extensions": {"e2ee": {"enabled": True}, "to_device": {"enabled": True}}}
    bodies = [
        json.dumps({"conn_id": name, **asks})
        for name, asks in (("rooms", rooms), ("notifications", rooms), ("keys", keys))
    ]
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(3) as at_once:

        def first(body):
            answer = call(roomy.url, grace.access_token, "POST", f"{SLIDING}?timeout=0", body.encode())
            return f"{SLIDING}?pos={answer.body['pos']}&timeout=1500"

        polls = [
            stack.enter_context(poll(roomy.port, grace.access_token, target, body=body))
            for target, body in zip(at_once.map(first, bodies), bodies, strict=True)
        ]
        wait_for(lambda: watched.in_flight("SlidingSyncRestServlet") == 3, 5, "all three at the homeserver")
        wait_for(lambda: roomy.status()["waits"]["live"] == 3, 5, "what the phone left is over")
        watched.say(alice, room, "to all of you")
        answers = [answer_from(sock) for sock in polls]
        assert [status for status, _ in answers] == [200] * 3
        assert [b"to all of you" in body for _, body in answers] == [True, True, False]
        assert roomy.lines("refused") == []


# Clients that find their budget spent.


class Starved:
    """nio as carol and js-sdk as dave lose their device's only place for 5 s, while alice goes on talking."""

    def __init__(self, watched, tap, folder):
        people = watched.accounts("alice", "carol", "dave")
        self.room = watched.room(*people.values())
        self.alice = people["alice"]
        self.clients = {"nio": people["carol"], "js-sdk": people["dave"]}
        settings = {"sync": {"per_account": 4, "per_device": 1, "grace_seconds": 0.5}}
        with contextlib.ExitStack() as stack:
            self.fairgate = stack.enter_context(running_fairgate(folder, tap.url, **settings))
            listeners = {
                kind: stack.enter_context(listening(kind, self.fairgate.url, account))
                for kind, account in self.clients.items()
            }
            for kind, listener in listeners.items():
                wait_for(lambda listener=listener: listener.heard[:1] == ["ready"], 30, f"{kind} to sync")
            with contextlib.ExitStack() as hogs:
                self._take_places(watched, tap, hogs)
                for text in "12345":
                    watched.say(self.alice, self.room, text)
                time.sleep(REFUSED_FOR_S)
                self.heard_meanwhile = {kind: listener.heard[1:] for kind, listener in listeners.items()}
                self.refusals = self.fairgate.lines("refused")
            freed_at = time.monotonic()
            watched.say(self.alice, self.room, "end")
            for kind, listener in listeners.items():
                wait_for(lambda listener=listener: "end" in listener.heard, 15, f"{kind} to hear the end")
            self.recovered_in_s = time.monotonic() - freed_at
            self.heard = {kind: listener.heard[1:] for kind, listener in listeners.items()}
            self.asked = {kind: self._syncs_of(kind) for kind in listeners}

    def _take_places(self, watched, tap, hogs):
        wait_for(lambda: self.fairgate.status()["waits"]["live"] == 2, 10, "both to wait")
        marks = []
        for account in self.clients.values():
            target, mark = marked(watched.position(account), 10_000)
            marks.append(mark)
            hogs.enter_context(poll(self.fairgate.port, account.access_token, target))
        wait_for(lambda: self.fairgate.status()["waits"]["parked"] == 2, 5, "the hogs to park")
        watched.say(
            self.alice, self.room, "0"
        )  # ends the clients' polls: their places go to who parks for them
        wait_for(lambda: all(arrived(tap, mark) for mark in marks), 5, "the hogs to have the places")

    def refusals_of(self, kind):
        flow = self.clients[kind].user_id
        return [line for line in self.refusals if line["flow"] == flow]

    def _syncs_of(self, kind):
        flow = self.clients[kind].user_id
        lines = self.fairgate.lines("refused") + self.fairgate.lines("request")
        return sum(line["flow"] == flow and SYNC in line["target"] for line in lines)


@pytest.fixture(scope="module")
def starved(watched, tap, tmp_path_factory):
    return Starved(watched, tap, tmp_path_factory.mktemp("starved"))


@pytest.mark.parametrize("kind", ["nio", "js-sdk"])
def test_a_real_client_without_a_place_asks_every_few_seconds_and_no_more(starved, kind):
    refusals = starved.refusals_of(kind)
    assert {line["reason"] for line in refusals} == {"sync_device"}
    assert 1 <= len(refusals) <= REFUSED_FOR_S / 1.6 + 1, "the hint is 2 s, with jitter 1.6"
    assert starved.asked[kind] <= len(refusals) + 10


@pytest.mark.parametrize("kind", ["nio", "js-sdk"])
def test_it_comes_back_by_itself_and_has_lost_nothing(starved, kind):
    assert starved.heard_meanwhile[kind] == ["0"]
    assert starved.heard[kind] == [*"012345", "end"]
    assert starved.recovered_in_s < 10
