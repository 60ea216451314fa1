"""Who is asking, before a real Synapse: guests, an appservice, tokens that rotate and end, and a restart under many clients."""

import concurrent.futures
import uuid

import pytest
from e2e_support import running_fairgate, wait_for
from tap import Tap
from watched import AS_TOKEN, BOT, GHOSTS, call

WHOAMI = "/_matrix/client/v3/account/whoami"
ROOMS = "/_matrix/client/v3/joined_rooms"
KNOWN = 300  # clients, before the restart
ASKING_MEANWHILE = 30
FRESH_S = 2


@pytest.fixture(scope="module")
def tap(watched):
    with Tap(watched.port) as tap:
        yield tap


@pytest.fixture(scope="module")
def gate(tap, tmp_path_factory):
    with running_fairgate(tmp_path_factory.mktemp("identity"), tap.url) as fairgate:
        yield fairgate


class Asker:
    """Asks through Fairgate, and tells which flow Fairgate took it for and how often it asked whoami."""

    def __init__(self, fairgate, tap):
        self.fairgate, self.tap = fairgate, tap

    def __call__(self, token, path=ROOMS, *, source="127.0.0.1", method="GET", body=None):
        before, request_id = len(self.tap.of(WHOAMI)), uuid.uuid4().hex
        answer = call(self.fairgate.url, token, method, path, body, source=source, X_Request_Id=request_id)
        line = wait_for(lambda: self._line(request_id), 5, "its line in the log")
        return answer.status, line["flow"], len(self.tap.of(WHOAMI)) - before

    def _line(self, request_id):
        return next(
            (line for line in self.fairgate.lines("request") if line["request_id"] == request_id), None
        )


@pytest.fixture
def ask(gate, tap):
    return Asker(gate, tap)


def register(watched, **body):
    kind = body.pop("kind", "user")
    return call(
        watched.url, body.pop("token", None), "POST", f"/_matrix/client/v3/register?kind={kind}", body
    )


def test_an_account_is_asked_about_once_and_counts_as_itself_wherever_it_is(watched, ask):
    carol = watched.accounts("carol")["carol"]
    assert ask(carol.access_token) == (200, "@carol:localhost", 1)
    assert ask(carol.access_token, source="127.0.7.1") == (200, "@carol:localhost", 0)


def test_a_token_that_was_made_up_counts_as_the_address_that_sends_it(watched, ask):
    carol = watched.accounts("carol")["carol"]
    forged = carol.access_token[:-1] + ("a" if carol.access_token[-1] != "a" else "b")
    assert ask(forged, source="127.0.7.2") == (401, "127.0.7.2", 1)
    assert ask(forged, source="127.0.7.2") == (401, "127.0.7.2", 0)
    assert ask(carol.access_token, source="127.0.7.2")[1] == "@carol:localhost"


def test_a_guest_counts_as_its_address(watched, ask):
    guest = register(watched, kind="guest").body
    assert ask(guest["access_token"], source="127.0.7.3") == (200, "127.0.7.3", 1)
    assert ask(guest["access_token"], source="127.0.7.4") == (200, "127.0.7.4", 0)


def test_an_appservice_is_one_flow_with_all_its_ghosts_and_costs_three_look_ups(watched, ask):
    login = "m.login.application_service"
    for number in range(4):
        name = f"{GHOSTS[1:]}{number}"
        made = register(watched, token=AS_TOKEN, type=login, username=name, inhibit_login=True)
        assert made.status == 200 or made.errcode == "M_USER_IN_USE"
    ghosts = [f"{ROOMS}?user_id={GHOSTS}{number}:localhost" for number in range(4)]
    flow = f"appservice {BOT}"

    assert ask(AS_TOKEN) == (200, BOT, 1), "nothing tells yet that it may act for others"
    assert ask(AS_TOKEN, ghosts[0]) == (200, flow, 1)
    assert [ask(AS_TOKEN, ghost) for ghost in ghosts] == [(200, flow, 0)] * 4
    assert ask(AS_TOKEN, f"{ROOMS}?user_id=@carol:localhost") == (403, flow, 0), "the homeserver decides"
    assert ask(AS_TOKEN) == (200, flow, 0)


def test_a_user_gains_nothing_by_naming_another(watched, ask):
    dave = watched.accounts("dave")["dave"]
    assert ask(dave.access_token, f"{ROOMS}?user_id=@carol:localhost")[:2] == (200, "@dave:localhost")


def test_a_refreshed_token_is_the_same_account_and_the_old_one_is_dropped_when_it_expires(watched, ask):
    carol = watched.accounts("carol")["carol"]
    refresh = "/_matrix/client/v3/refresh"
    first = watched.log_in(carol, refresh_token=True)
    assert ask(first["access_token"]) == (200, "@carol:localhost", 1)
    second = call(ask.fairgate.url, None, "POST", refresh, {"refresh_token": first["refresh_token"]}).body
    assert ask(second["access_token"]) == (200, "@carol:localhost", 1)

    expired = wait_for(lambda: (told := ask(first["access_token"]))[0] == 401 and told, 10, "its end")
    assert expired == (401, "@carol:localhost", 0), "the homeserver says so, to a token that was known"
    assert ask(first["access_token"], source="127.0.7.5") == (401, "127.0.7.5", 1)


def test_a_logout_ends_what_is_known_and_the_device_is_known_again_after_a_login(watched, ask):
    carol = watched.accounts("carol")["carol"]
    first = watched.log_in(carol, "PHONE")["access_token"]
    assert ask(first) == (200, "@carol:localhost", 1)
    assert ask(first, "/_matrix/client/v3/logout", method="POST", body={})[0] == 200
    assert ask(first, source="127.0.7.6") == (401, "127.0.7.6", 1)

    second = watched.log_in(carol, "PHONE")["access_token"]
    assert ask(second) == (200, "@carol:localhost", 1)
    watched.ask(second, "POST", "/_matrix/client/v3/logout", {})  # not through us
    assert ask(second) == (401, "@carol:localhost", 0), "the cache is no authorisation"
    assert ask(second, source="127.0.7.7") == (401, "127.0.7.7", 1)


def most_at_once(asked):
    """How many of these the homeserver had at one time."""
    steps = sorted(
        [(one.began_at, 1) for one in asked] + [(one.ended_at or one.began_at, -1) for one in asked]
    )
    most = running = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most


def ask_all(url, tokens):
    """Each token once, from an address of its own; the statuses."""

    def one(number):
        source = f"127.8.{number // 250}.{number % 250 + 1}"
        return call(url, tokens[number], "GET", ROOMS, source=source).status

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        return list(pool.map(one, range(len(tokens))))


def test_a_restart_under_many_known_clients_makes_no_storm_of_look_ups(watched, tap, tmp_path):
    tokens = watched.many_tokens(KNOWN)
    settings = {"identity": {"fresh_seconds": FRESH_S}}
    with running_fairgate(tmp_path, tap.url, **settings) as fairgate:
        before = len(tap.of(WHOAMI))
        assert set(ask_all(fairgate.url, tokens)) == {200}
        first = tap.of(WHOAMI)[before:]
        assert len(first) == KNOWN
        assert most_at_once(first) <= 16

        down = []
        watched.restart(lambda: down.extend(ask_all(fairgate.url, tokens[:ASKING_MEANWHILE])))
        assert set(down) == {502}, "while it is away"
        restarted = len(tap.of(WHOAMI))
        assert set(ask_all(fairgate.url, tokens)) == {200}, "all are stale by now, and none waits for that"

        def renewed():
            identity = fairgate.status()["identity"]
            return not identity["lookups_running"] + identity["lookups_queued"]

        wait_for(renewed, 20, "the renewals")
        after = tap.of(WHOAMI)[restarted:]
        assert KNOWN - ASKING_MEANWHILE <= len(after) <= KNOWN, (
            "who asked while it was away is asked about later"
        )
        assert most_at_once(after) <= 16
        assert fairgate.status()["identity"]["lookups_total"]["denied"] == 0
