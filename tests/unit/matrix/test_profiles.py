import json

import pytest

from proxy.matrix.endpoint import Lane, RouteClass
from proxy.matrix.profiles import LANE_NAMES, PROFILES, Figure, figures, identify
from proxy.matrix.routes import find_endpoint

OTHERS = ["synapse", "dendrite", "tuwunel", "continuwuity", "conduit"]
C = b"/_matrix/client/v3"


def given(**set_figures):
    """What the settings give when nothing is set, with some figures set in the file (`__` for a dot)."""
    numbers = {f"lanes.{name}.deadline_seconds": 180 for name in LANE_NAMES}
    numbers |= {f"lanes.{name}.max_wait_seconds": 30 for name in LANE_NAMES}
    numbers["lanes.requests.history_deadline_seconds"] = 300
    known = {key: Figure(value, "default") for key, value in numbers.items()}
    return known | {key.replace("__", "."): Figure(value, "file") for key, value in set_figures.items()}


def version(name):
    return json.dumps({"server": {"name": name, "version": "1.2"}}).encode()


@pytest.mark.parametrize(
    ("answer", "field", "profile"),
    [
        (version("Synapse"), None, "synapse"),
        (version("Dendrite"), b"", "dendrite"),
        (version("Tuwunel"), None, "tuwunel"),
        (version("continuwuity"), None, "continuwuity"),
        (version("Conduwuit"), None, "continuwuity"),
        (version("Conduit"), None, "conduit"),
        (version("Palpo"), b"Synapse/1.2", "generic"),
        (version("generic"), None, "generic"),
        (None, b"Synapse/1.163.0", "synapse"),
        (None, b"nginx", "generic"),
        (None, b"", "generic"),
        (None, None, None),
        (b"", None, None),
        (b"<html>", b"Synapse/1", "synapse"),
        (b'{"server": []}', None, None),
        (b'{"server": {"name": 5}}', None, None),
        (b"[1]", None, None),
        (b"\xff\xfe", None, None),
        (b"[" * 70_000, None, None),
    ],
)
def test_a_homeserver_is_told_by_its_own_words(answer, field, profile):
    assert identify(answer, field) == profile


def test_the_generic_profile_shares_one_pool_of_sixteen():
    found = figures("generic", given())
    by_name = {lane.name: lane for lane in found.lanes}
    assert {name: lane.workers for name, lane in by_name.items()} == {
        "requests": 16,
        "vital": 2,
        "media": 8,
        "remote": 8,
        "first_syncs": 4,
        "federation": 16,
        "appservices": 4,
    }
    assert [lane.name for lane in found.lanes if not lane.in_pool] == ["vital"]
    assert by_name["federation"].guaranteed == 4
    assert sum(lane.guaranteed for lane in found.lanes) == 4
    assert {lane.share for lane in found.lanes if lane.name != "appservices"} == {0.25}
    assert by_name["appservices"].share == 1
    assert (found.sync_workers, found.waits_per_account, found.waits_per_device) == (32, 4, 2)


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_profile_has_places_of_its_own_for_each_lane(name):
    found = figures(name, given())
    assert {lane.name: lane.workers for lane in found.lanes} == {
        "requests": 64,
        "vital": 16,
        "media": 64,
        "remote": 64,
        "first_syncs": 32,
        "federation": 64,
        "appservices": 32,
    }
    assert not any(lane.in_pool or lane.guaranteed for lane in found.lanes)
    assert {lane.share for lane in found.lanes if lane.name != "appservices"} == {0.125}
    assert (found.sync_workers, found.waits_per_account, found.waits_per_device) == (8000, 32, 8)


def test_lanes_stand_in_the_order_of_the_lane_enumeration():
    assert [figures("generic", given()).lanes[lane].name for lane in Lane if lane >= 0] == list(LANE_NAMES)


def test_the_lanes_of_a_pool_follow_its_size_and_stay_within_it():
    found = figures("generic", given(lanes__requests__workers=4, lanes__media__workers=100))
    assert {lane.name: lane.workers for lane in found.lanes} == {
        "requests": 4,
        "vital": 2,
        "media": 4,
        "remote": 2,
        "first_syncs": 1,
        "federation": 4,
        "appservices": 1,
    }
    assert figures("generic", given(lanes__requests__workers=64)).lanes[Lane.VITAL].workers == 8


@pytest.mark.parametrize(("workers", "account", "device"), [(32, 4, 2), (12, 3, 2), (7, 1, 1), (1, 1, 1)])
def test_a_smaller_pool_of_waits_makes_the_accounts_budget_smaller(workers, account, device):
    found = figures("generic", given(sync__workers=workers))
    assert (found.waits_per_account, found.waits_per_device) == (account, device)


def test_a_device_never_has_more_waits_than_its_account():
    found = figures("synapse", given(sync__per_account=3, sync__per_device=5))
    assert (found.waits_per_account, found.waits_per_device) == (3, 3)
    assert found.given["sync.per_device"] == Figure(3, "file")


def test_what_was_set_wins_and_every_figure_has_its_origin():
    book = figures(
        "synapse",
        given(lanes__media__share=0.5) | {"sync.workers": Figure(100, "environment")},
    ).given
    assert book["lanes.media.share"] == Figure(0.5, "file")
    assert book["sync.workers"] == Figure(100, "environment")
    assert book["sync.per_account"] == Figure(25, "profile")
    assert book["lanes.media.workers"] == Figure(64, "profile")
    assert book["lanes.media.deadline_seconds"] == Figure(180, "default")


def test_a_line_is_long_for_many_workers_unless_set():
    lanes = figures("synapse", given()).lanes
    assert (lanes[Lane.REQUESTS].line, lanes[Lane.VITAL].line) == (4096, 1024)
    assert {lane.line for lane in figures("synapse", given(lanes__line=7)).lanes} == {7}


def test_deadlines_are_by_route_class():
    found = figures("generic", given(lanes__remote__deadline_seconds=600))
    assert len(found.deadlines_s) == len(RouteClass)
    assert found.deadlines_s[RouteClass.HISTORY] == 300
    assert found.deadlines_s[RouteClass.REMOTE] == 600
    assert found.deadlines_s[RouteClass.SYNC] == 210


def test_a_missing_figure_is_a_mistake_of_ours():
    with pytest.raises(KeyError):
        figures("generic", {})


@pytest.mark.parametrize(
    ("method", "path", "where"),
    [
        (b"GET", b"/rooms/!a/state/m.room.name", {"synapse", "tuwunel"}),
        (b"PUT", b"/rooms/!a/state/m.room.name", set()),
        (b"GET", b"/rooms/!a/members", {"synapse", "tuwunel"}),
        (b"POST", b"/keys/query", {"synapse"}),
        (b"GET", b"/keys/changes", {"synapse", "tuwunel"}),
        (b"GET", b"/rooms/!a/messages", {"dendrite", "tuwunel"}),
        (b"GET", b"/rooms/!a/context/$b", {"tuwunel"}),
        (b"GET", b"/sync?since=s1", {"tuwunel"}),
        (b"POST", b"/join/!a", set()),
    ],
)
def test_a_profile_tells_what_ends_with_its_client(method, path, where):
    endpoint = find_endpoint(method, C + path)
    assert {name for name in PROFILES if figures(name, given()).ends_with_client(endpoint, method)} == where
