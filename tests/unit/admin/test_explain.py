import pytest

from proxy.admin.explain import Asked, Rules, explain, fields_of, render
from proxy.identity.settings import ExemptSettings
from proxy.matrix.profiles import PROFILES, figures
from proxy.matrix.routes import find_endpoint
from proxy.policies.background_settings import BackgroundMatchSettings, BackgroundSettings
from proxy.policies.lanes import pool_rules
from proxy.policies.settings import LanesSettings, RequestLaneSettings, SyncSettings, given_figures
from proxy.policies.worker_share import RUNNING, Ticket, WorkerShare

ROOM = "/_matrix/client/v3/rooms/!r:x"
ALICE = "@alice:example.org"


def findings(method, target, *, profile="synapse", account=ALICE, fields=None, **rules):
    asked = Asked(method, target, account, fields or {})
    return {finding.topic: finding for finding in explain(asked, Rules(profile, **rules))}


def test_an_ordinary_request_has_its_lane_and_what_of_it_one_flow_may_have():
    found = findings("PUT", f"{ROOM}/send/m.room.message/1")
    assert found["class"].says == "requests"
    assert found["charged to"].says == ALICE
    assert found["lane"].says == "requests: 64 workers, 8 for one flow; 4096 wait, 30 s at most"
    assert found["background"].says == "no"
    assert found["deadline"].says == "180 s"
    assert found["body"].says == "at most 12.5 MiB"
    assert "history" not in found
    assert "large body" not in found


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "target",
    ["/x", "/_matrix/media/v3/download/a/b", "/_matrix/client/v3/publicRooms?server=a", f"{ROOM}/messages"],
)
def test_what_one_flow_may_have_is_what_it_gets_where_nobody_else_asks(profile, target):
    known = figures(profile, given_figures(LanesSettings(), SyncSettings()))
    share = WorkerShare(pool_rules(known, history_per_account=1000), now=0.0)
    names = [lane.name for lane in share.statistics(0.0).lanes]
    endpoint = find_endpoint(b"GET", target.encode())
    lane = names.index(known.lanes[endpoint.lane].name)
    asked = [Ticket(lane, ALICE, "192.0.2.1", None, confirmed=True) for _ in range(100)]
    for ticket in asked:
        share.ask(ticket, 0.0)
    running = sum(ticket.state == RUNNING for ticket in asked)
    assert f", {running} for one flow" in findings("GET", target, profile=profile)["lane"].says


def test_who_is_not_confirmed_is_charged_by_address_and_cannot_send_large_bodies():
    found = findings("PUT", f"{ROOM}/send/m.room.message/1", account=None)
    assert found["charged to"].says == "the client's address"
    assert found["large body"].says.startswith("refused with 401 above 1 MiB")


def test_history_is_limited_by_account():
    assert findings("GET", f"{ROOM}/messages?dir=b")["history"].says.startswith("4 at a time of one account")


def test_a_long_poll_has_budgets_and_no_lane_unless_it_does_work():
    found = findings("GET", "/_matrix/client/v3/sync?since=s1&timeout=30000")
    assert found["wait"].says.startswith("one of 8 waits of its device, 32 of its account, 8000 in all")
    assert found["timeout"].says == "30 s"
    assert found["deadline"].says == "its timeout + 90 s, 210 s where it is unknown"
    assert "lane" not in found
    first = findings("GET", "/_matrix/client/v3/sync?timeout=30000")
    assert first["lane"].says.startswith("first_syncs: 32 workers")
    at_once = findings("GET", "/_matrix/client/v3/sync?since=s1&timeout=0")
    assert at_once["lane"].says.startswith("requests: ")


def test_background_names_the_rule_that_makes_it_so():
    said = findings("GET", f"{ROOM}/messages", fields=fields_of(["Fairgate-Class: background"]))
    assert said["background"].why == "it says Fairgate-Class: background"
    assert said["background"].says == (
        "yes: one of at most 4 at a time, 2 of its flow; 2 of a flow wait, 30 s at most; late after 30 s"
    )
    matching = BackgroundSettings(match=BackgroundMatchSettings(user_agents=("axon/*",)))
    found = findings("GET", f"{ROOM}/state", fields={"user-agent": "axon/1"}, background=matching)
    assert found["background"].why == "background.match.user_agents names its User-Agent"
    assert found["background"].says.endswith("late after 15 s")


def test_a_background_long_poll_takes_no_place():
    found = findings(
        "GET", "/_matrix/client/v3/sync?since=s&timeout=1", fields={"fairgate-class": "background"}
    )
    assert "takes no place" in found["background"].says


def test_report_mode_is_told_where_it_holds():
    found = findings(
        "GET",
        f"{ROOM}/messages",
        fields={"fairgate-class": "background"},
        background=BackgroundSettings(mode="report"),
        mode="enforce",
    )
    assert found["background"].why.endswith("only counted: mode is report")
    assert "report" not in found["lane"].why
    assert "report" in findings("GET", "/x", mode="report")["lane"].why


def test_an_exempt_account_has_no_limit_of_its_own():
    found = findings("GET", f"{ROOM}/messages", exempt=ExemptSettings(accounts=("@ali*:example.org",)))
    assert found["exempt"].why == "clients.exempt names its account"
    assert "exempt" in found["lane"].says
    assert "history" not in found
    assert "exempt" not in findings("GET", "/x", exempt=ExemptSettings(accounts=("@bob:example.org",)))


def test_what_was_set_is_told_beside_what_the_profile_says():
    lanes = LanesSettings(requests=RequestLaneSettings(workers=10))
    found = findings("GET", "/x", lanes=lanes)
    assert found["lane"].says.startswith("requests: 10 workers, 1 for one flow")
    assert found["lane"].why.endswith("set: lanes.requests.workers (file)")
    found = findings("GET", "/_matrix/client/v3/sync?since=s&timeout=1", sync=SyncSettings(per_device=1))
    assert found["wait"].why.endswith("set: sync.per_device (file)")
    assert findings("GET", "/x")["lane"].why.endswith("figures of profile synapse")


def test_what_ends_with_its_client_is_told_by_the_profile():
    assert (
        findings("GET", f"{ROOM}/members")["client leaves"].says == "the request is ended at the homeserver"
    )
    assert "held" in findings("GET", f"{ROOM}/members", profile="conduit")["client leaves"].says
    assert "ghost" in findings("GET", "/_matrix/client/v3/sync?since=s&timeout=1")["client leaves"].says


@pytest.mark.parametrize(
    ("target", "heard"),
    [("/_matrix/client/v1/media/download/x/y", False), (f"{ROOM}/messages", True)],
)
def test_it_is_told_whose_failures_the_gate_does_not_hear(target, heard):
    assert ("gate" not in findings("GET", target)) is heard


def test_pushers_have_their_cap():
    assert findings("POST", "/_matrix/client/v3/pushers/set")["pushers"].says.startswith("at most 20 pushers")


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize(
    "target", ["/", "/_matrix/client/versions", "/_matrix/federation/v1/send/1", "/%2e?x", "*"]
)
def test_anything_can_be_explained_for_any_homeserver(profile, target):
    text = render(explain(Asked("OPTIONS" if target == "*" else "GET", target), Rules(profile)))
    assert "deadline" in text


def test_it_reads_as_topics_with_reasons():
    text = render(explain(Asked("GET", f"{ROOM}/messages", ALICE), Rules("synapse")))
    lines = text.splitlines()
    assert lines[0].split() == ["class", "history"]
    assert lines[1].strip() == "because GET on this path is `messages` in the table of routes"
    assert len(lines) % 2 == 0


@pytest.mark.parametrize("header", ["Fairgate-Class", ": x", ""])
def test_what_is_no_header_is_told(header):
    with pytest.raises(ValueError, match="is not a header; write it as 'Name: value'"):
        fields_of([header])
