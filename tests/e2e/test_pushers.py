"""The cap of pushers before a real Synapse."""

import concurrent.futures
import json

import pytest
from e2e_support import running_fairgate, wait_for
from tap import Tap
from watched import call

CAP = 20
SET = "/_matrix/client/v3/pushers/set"
LIST = "/_matrix/client/v3/pushers"
FULL = (400, "M_INVALID_PARAM", "pushers_full")


@pytest.fixture(scope="module")
def tap(watched):
    with Tap(watched.port) as tap:
        yield tap


@pytest.fixture(scope="module")
def gate(tap, tmp_path_factory):
    with running_fairgate(tmp_path_factory.mktemp("pushers"), tap.url) as fairgate:
        yield fairgate


def pusher(key, **changes):
    return {
        "kind": "http",
        "app_id": "org.example.app",
        "pushkey": key,
        "app_display_name": "App",
        "device_display_name": "Phone",
        "lang": "en",
        "append": True,
        "data": {"url": "http://127.0.0.1:9/_matrix/push/v1/notify"},
        **changes,
    }


class Owner:
    """An account and its pushers, through Fairgate and at the homeserver itself."""

    def __init__(self, watched, gate, account):
        self.watched, self.gate, self.account = watched, gate, account
        for key in self.pushkeys():
            self.watched.ask(account.access_token, "POST", SET, pusher(key, kind=None))

    def set(self, key, **changes):
        """Register through Fairgate: status, error code, Fairgate's reason."""
        return self.send(json.dumps(pusher(key, **changes)).encode())

    def send(self, body):
        answer = call(self.gate.url, self.account.access_token, "POST", SET, body)
        return answer.status, answer.errcode, answer.reason

    def pushkeys(self):
        listed = self.watched.ask(self.account.access_token, "GET", LIST)["pushers"]
        return sorted(one["pushkey"] for one in listed)

    def fill(self, number):
        """Have so many, told to the homeserver itself."""
        for count in range(number):
            self.watched.ask(self.account.access_token, "POST", SET, pusher(f"old {count}"))


@pytest.fixture
def owners(watched, gate):
    return [Owner(watched, gate, account) for account in watched.accounts("ivan", "judy").values()]


def test_twenty_are_registered_and_the_next_is_refused_until_one_is_deleted(owners):
    ivan, judy = owners
    assert {ivan.set(f"key {number}") for number in range(CAP)} == {(200, None, None)}
    assert ivan.set("one too many") == FULL
    assert len(ivan.pushkeys()) == CAP

    assert ivan.set("key 3", lang="de") == (200, None, None), "an update"
    assert judy.set("key 3") == (200, None, None), "another account"
    assert ivan.set("key 3", app_id="org.example.other") == FULL, "a key of another app is another pusher"
    assert ivan.set("key 4", kind=None) == (200, None, None), "a deletion"
    assert ivan.set("instead") == (200, None, None)
    assert ivan.set("one too many") == FULL
    assert len(ivan.pushkeys()) == CAP


def test_pushers_that_were_made_without_us_count_and_so_do_deletions(owners):
    ivan, _ = owners
    ivan.fill(CAP)
    assert ivan.set("one too many") == FULL
    ivan.watched.ask(ivan.account.access_token, "POST", SET, pusher("old 7", kind=None))
    assert ivan.set("instead") == (200, None, None)


def test_registrations_that_race_for_the_last_place_cannot_both_have_it(owners):
    ivan, _ = owners
    ivan.fill(CAP - 1)
    with concurrent.futures.ThreadPoolExecutor(6) as racers:
        for race in range(5):
            told = list(racers.map(ivan.set, [f"race {race} {number}" for number in range(6)]))
            assert sorted(told) == [(200, None, None), *[FULL] * 5]
            (winner,) = [key for key in ivan.pushkeys() if key.startswith("race")]
            assert ivan.set(winner, kind=None) == (200, None, None)


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"", (400, "M_NOT_JSON")),
        (b"{", (400, "M_NOT_JSON")),
        (b"[1]", (400, "M_BAD_JSON")),
        (b'{"kind":"http"}', (400, "M_MISSING_PARAM")),
        (b'{"kind":"http","app_id":"org.example.app","data":{}}', (400, "M_MISSING_PARAM")),
        (json.dumps(pusher("x" * 70_000)).encode(), None),
    ],
    ids=["nothing", "no JSON", "no object", "no key", "lacks a field", "over 64 KiB"],
)
def test_what_is_no_registration_we_could_count_is_the_homeservers_to_answer(owners, tap, body, answer):
    ivan, _ = owners
    ivan.fill(CAP)
    before = len(tap.of(SET))
    status, errcode, reason = ivan.send(body)
    assert reason is None
    assert answer in (None, (status, errcode))
    assert [one.body_bytes for one in tap.of(SET)[before:]] == [len(body)]


def test_a_full_line_of_its_own_does_not_open_the_cap(watched, tap, tmp_path):
    """The list is asked for under the registration's own worker, so it can always be had."""
    lanes = {"requests": {"workers": 4, "share": 0.25}, "line": 2}
    with running_fairgate(tmp_path, tap.url, profile="synapse", lanes=lanes) as fairgate:
        ivan = Owner(watched, fairgate, watched.accounts("ivan")["ivan"])
        ivan.fill(CAP)
        rooms = (fairgate.url, ivan.account.access_token, "GET", "/_matrix/client/v3/joined_rooms")
        assert call(*rooms).status == 200
        with concurrent.futures.ThreadPoolExecutor(4) as many:
            try:
                tap.holds = lambda seen: seen.path == LIST
                registering = many.submit(ivan.set, "one too many")
                wait_for(lambda: tap.open(LIST) == 1, 5, "the question for the list")
                in_line = [many.submit(call, *rooms) for _ in range(2)]
                wait_for(lambda: lane(fairgate)["waiting"] == 2, 5, "its line to be full")
                assert call(*rooms).reason == "line_full"
                assert ivan.set("another") == (429, "M_LIMIT_EXCEEDED", "line_full")
            finally:
                tap.release()
            assert registering.result() == FULL
            assert [one.result().status for one in in_line] == [200, 200]
        assert len(ivan.pushkeys()) == CAP


def lane(fairgate):
    return next(one for one in fairgate.status()["workers"]["lanes"] if one["name"] == "requests")
