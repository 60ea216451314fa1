import pytest

from proxy.matrix.endpoint import Lane, Poll, RouteClass
from proxy.matrix.route_table import PREFIXES, ROWS
from proxy.matrix.routes import find_endpoint
from proxy.matrix.sync_request import sync_timeout_s

C = b"/_matrix/client/v3"
UNSTABLE = b"/_matrix/client/unstable"
SLIDING = UNSTABLE + b"/org.matrix.simplified_msc3575/sync"


def paths(template):
    """Fill in a row's path: every prefix, something for each open segment."""
    filled = template.replace("{}", "x!:%24").replace("**", "y/z")
    if filled.startswith("V/"):
        return [f"/_matrix/client/{prefix}{filled[1:]}".encode() for prefix in PREFIXES]
    return [f"/{filled}".encode()]


@pytest.mark.parametrize(("methods", "template", "endpoint"), ROWS, ids=lambda value: str(value)[:60])
def test_every_row_is_found_by_all_its_methods_and_prefixes_and_is_hidden_by_no_other(
    methods, template, endpoint
):
    for method in methods.replace("*", "GET POST PUT DELETE LINK").split():
        for path in paths(template):
            found = find_endpoint(method.encode(), path)
            if endpoint.branch is None:
                assert found is endpoint, path
            else:
                assert found is endpoint.branch(b""), path


@pytest.mark.parametrize(("methods", "template", "endpoint"), ROWS, ids=lambda value: str(value)[:60])
def test_no_row_is_found_by_another_method_or_with_more_behind_it(methods, template, endpoint):
    if methods == "*":
        return
    for path in paths(template):
        assert find_endpoint(b"PATCH", path).name in ("other", "media")
        if not template.endswith("**"):
            assert (
                find_endpoint(methods.split()[0].encode(), path + b"/more/of/it/here").name != endpoint.name
            )


@pytest.mark.parametrize(
    ("method", "target", "route"),
    [
        (b"GET", b"/_matrix/client/versions", RouteClass.VITAL),
        (b"GET", b"/_matrix/client/v1/auth_metadata", RouteClass.VITAL),
        (b"GET", UNSTABLE + b"/org.matrix.msc2965/auth_issuer", RouteClass.VITAL),
        (b"GET", b"/.well-known/matrix/client", RouteClass.VITAL),
        (b"GET", b"/health", RouteClass.VITAL),
        (b"OPTIONS", C + b"/sync", RouteClass.VITAL),
        (b"OPTIONS", b"*", RouteClass.VITAL),
        (b"GET", C + b"/account/whoami", RouteClass.REQUESTS),
        (b"GET", C + b"/rooms/!a/state", RouteClass.REQUESTS),
        (b"PUT", C + b"/rooms/!a/send/m.room.message/1", RouteClass.REQUESTS),
        (b"GET", C + b"/rooms/!a/messages?dir=b", RouteClass.HISTORY),
        (b"HEAD", C + b"/rooms/!a/messages?dir=b", RouteClass.HISTORY),
        (b"GET", b"/_matrix/client/api/v1/rooms/!a/messages", RouteClass.HISTORY),
        (b"GET", C + b"/rooms/!a/context/$b", RouteClass.HISTORY),
        (b"POST", C + b"/search", RouteClass.HISTORY),
        (b"POST", C + b"/user_directory/search", RouteClass.REQUESTS),
        (b"GET", b"/_matrix/client/v1/rooms/!a/relations/$b", RouteClass.HISTORY),
        (b"GET", b"/_matrix/client/v1/rooms/!a/relations/$b/m.annotation/m.reaction", RouteClass.HISTORY),
        (b"GET", b"/_matrix/client/v1/rooms/!a/threads", RouteClass.REQUESTS),
        (b"GET", C + b"/initialSync", RouteClass.FIRST_SYNC),
        (b"GET", C + b"/rooms/!a/initialSync", RouteClass.FIRST_SYNC),
        (b"POST", C + b"/join/%23a%3Ab", RouteClass.REMOTE),
        (b"POST", C + b"/rooms/!a/join", RouteClass.REMOTE),
        (b"POST", C + b"/rooms/!a/leave", RouteClass.REQUESTS),
        (b"POST", C + b"/keys/query", RouteClass.REMOTE),
        (b"POST", C + b"/keys/claim", RouteClass.REMOTE),
        (b"POST", C + b"/keys/upload", RouteClass.REQUESTS),
        (b"GET", C + b"/keys/changes?from=a", RouteClass.REQUESTS),
        (b"GET", C + b"/profile/@a:b", RouteClass.REMOTE),
        (b"PUT", C + b"/profile/@a:b/displayname", RouteClass.REQUESTS),
        (b"GET", C + b"/directory/room/%23a%3Ab", RouteClass.REMOTE),
        (b"PUT", C + b"/directory/room/%23a%3Ab", RouteClass.REQUESTS),
        (b"GET", C + b"/publicRooms", RouteClass.REQUESTS),
        (b"GET", C + b"/publicRooms?limit=20", RouteClass.REQUESTS),
        (b"GET", C + b"/publicRooms?xserver=a", RouteClass.REQUESTS),
        (b"GET", C + b"/publicRooms?limit=20&server=example.org", RouteClass.REMOTE),
        (b"POST", C + b"/publicRooms?server=example.org", RouteClass.REMOTE),
        (b"POST", C + b"/publicRooms?%73erver=example.org", RouteClass.REMOTE),
        (b"GET", b"/_matrix/client/v1/rooms/!a/hierarchy", RouteClass.REMOTE),
        (b"GET", b"/_matrix/client/v1/room_summary/!a", RouteClass.REMOTE),
        (b"GET", b"/_matrix/client/v1/media/download/a/b", RouteClass.MEDIA),
        (b"POST", b"/_matrix/media/v3/upload", RouteClass.MEDIA),
        (b"GET", b"/_matrix/media/r0/thumbnail/a/b?width=1", RouteClass.MEDIA),
        (b"PUT", b"/_matrix/federation/v1/send/1", RouteClass.FEDERATION),
        (b"GET", b"/_matrix/federation/v1/version", RouteClass.FEDERATION),
        (b"GET", b"/_matrix/key/v2/server", RouteClass.FEDERATION),
        (b"GET", b"/", RouteClass.REQUESTS),
        (b"GET", b"/_matrix/client", RouteClass.REQUESTS),
    ],
)
def test_method_and_path_tell_the_class_of_a_request(method, target, route):
    assert find_endpoint(method, target).route == route


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"POST", C + b"/sync?since=s1"),
        (b"get", C + b"/sync?since=s1"),
        (b"GET", SLIDING + b"?pos=1"),
        (b"GET", C + b"/sync/?since=s1"),
        (b"GET", C + b"/syncs?since=s1"),
        (b"GET", C + b"//sync?since=s1"),
        (b"GET", b"/" + C + b"/sync?since=s1"),
        (b"GET", b"/_matrix//client/v3/sync"),
        (b"GET", b"/_matrix/client/v9/sync"),
        (b"GET", b"/_matrix/client/api/v2/sync"),
        (b"GET", b"/_Matrix/client/v3/sync"),
        (b"GET", C + b"/events/$a"),
        (b"GET", C + b"/events/"),
        (b"PUT", C + b"/rooms/!a/messages"),
        (b"GET", C + b"/rooms/messages"),
        (b"POST", b"/_matrix/client/versions"),
        (b"GET", b"/_matrix/client/v3/versions"),
        (b"GET", b"/healthy"),
        (b"GET", b"/_matrix/federations/v1/version"),
        (b"GET", b"/x/_matrix/federation/v1/version"),
        (b"GET", b"/?/_matrix/client/v3/sync"),
        (b"GET", b"*"),
    ],
)
def test_what_only_looks_like_a_row_is_an_ordinary_request(method, target):
    endpoint = find_endpoint(method, target)
    assert (endpoint.name, endpoint.route, endpoint.lane) == ("other", RouteClass.REQUESTS, Lane.REQUESTS)


@pytest.mark.parametrize(
    ("target", "route"),
    [
        (C + b"/%73ync?since=s1&timeout=1", RouteClass.SYNC),
        (C + b"/%73ync", RouteClass.FIRST_SYNC),
        (C + b"/rooms/!a/%6dessages", RouteClass.HISTORY),
        (C + b"%2fsync?since=s", RouteClass.SYNC),
        (b"/%5fmatrix/federation/v1/version", RouteClass.FEDERATION),
        (b"/_matrix/client/%76ersions", RouteClass.REQUESTS),
        (b"/%68ealth", RouteClass.REQUESTS),
        (b"/.well-known/%6datrix", RouteClass.VITAL),
        (C + b"/rooms/!a/messages%2F", RouteClass.REQUESTS),
        (C + b"/rooms/!a%2Fb/messages", RouteClass.HISTORY),
    ],
)
def test_escapes_lead_to_the_stricter_class_and_never_to_the_vital_one(target, route):
    assert find_endpoint(b"GET", target).route == route


def test_escapes_hide_no_pusher():
    assert find_endpoint(b"POST", C + b"/pushers/%73et").sets_pusher


@pytest.mark.parametrize(
    ("target", "route", "lane"),
    [
        (C + b"/sync", RouteClass.FIRST_SYNC, Lane.FIRST_SYNCS),
        (C + b"/sync?since=", RouteClass.FIRST_SYNC, Lane.FIRST_SYNCS),
        (C + b"/sync?pos=s1&timeout=1", RouteClass.FIRST_SYNC, Lane.FIRST_SYNCS),
        (C + b"/sync?since=s1&timeout=30000&full_state=true", RouteClass.FIRST_SYNC, Lane.FIRST_SYNCS),
        (C + b"/sync?since=s1&timeout=30000&full_state=false", RouteClass.SYNC, Lane.NONE),
        (C + b"/sync?timeout=30000&since=s1", RouteClass.SYNC, Lane.NONE),
        (C + b"/sync?timeout=0&since=s1", RouteClass.SYNC, Lane.REQUESTS),
        (C + b"/sync?since=s1", RouteClass.SYNC, Lane.REQUESTS),
        (b"/_matrix/client/api/v1/events?from=s1", RouteClass.SYNC, Lane.NONE),
        (b"/_matrix/client/api/v1/events?from=s1&timeout=0", RouteClass.SYNC, Lane.REQUESTS),
        (b"/_matrix/client/api/v1/events", RouteClass.FIRST_SYNC, Lane.FIRST_SYNCS),
    ],
)
def test_a_long_poll_takes_a_worker_where_it_does_work(target, route, lane):
    endpoint = find_endpoint(b"GET", target)
    assert (endpoint.route, endpoint.lane) == (route, lane)
    assert endpoint.poll is (Poll.EVENTS if b"events" in target else Poll.SYNC)


@pytest.mark.parametrize(
    "path",
    [SLIDING, b"/_matrix/client/v4/sync", UNSTABLE + b"/org.matrix.msc3575/sync"],
)
def test_sliding_sync_is_a_long_poll_under_all_its_prefixes(path):
    first, wait = find_endpoint(b"POST", path), find_endpoint(b"POST", path + b"?pos=1&timeout=30000")
    assert (first.lane, wait.lane) == (Lane.FIRST_SYNCS, Lane.NONE)
    assert first.poll is wait.poll is Poll.SLIDING_SYNC


def test_an_initial_sync_of_the_old_kind_is_no_wait():
    assert find_endpoint(b"GET", C + b"/initialSync").poll is Poll.NONE


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"POST", b"/_matrix/media/v3/upload?filename=a"),
        (b"POST", b"/_matrix/media/r0/upload"),
        (b"PUT", b"/_matrix/media/v3/upload/example.org/abc"),
        (b"PUT", b"/_matrix/media/unstable/fi.mau.msc2246/upload/example.org/abc"),
    ],
)
def test_uploads_are_told_from_other_media(method, target):
    assert find_endpoint(method, target).is_upload
    assert not find_endpoint(b"GET", target).is_upload


def test_creating_media_carries_no_file():
    assert not find_endpoint(b"POST", b"/_matrix/media/v1/create").is_upload


@pytest.mark.parametrize("path", [b"/_matrix/media/v3/config", b"/_matrix/client/v1/media/config"])
def test_the_media_configuration_is_known_by_both_paths(path):
    assert find_endpoint(b"GET", path).name == "media_config"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (b"POST", b"/logout"),
        (b"POST", b"/logout/all"),
        (b"POST", b"/account/password"),
        (b"POST", b"/account/deactivate"),
        (b"DELETE", b"/devices/ABC"),
        (b"POST", b"/delete_devices"),
        (b"POST", b"/refresh"),
        (b"POST", b"/login"),
        (b"POST", b"/register"),
    ],
)
def test_what_kills_tokens_says_so(method, path):
    assert find_endpoint(method, C + path).kills_token
    assert not find_endpoint(b"PUT", C + path).kills_token


@pytest.mark.parametrize(
    ("method", "target", "takes"),
    [
        (b"PUT", C + b"/rooms/!a/send/m.room.message/1", True),
        (b"POST", b"/_matrix/media/v3/upload", True),
        (b"POST", C + b"/not/known/yet", True),
        (b"POST", b"/_synapse/admin/v1/x", True),
        (b"POST", C + b"/login", False),
        (b"POST", C + b"/login/get_token", True),
        (b"POST", C + b"/register", False),
        (b"POST", C + b"/account/password", False),
        (b"PUT", b"/_matrix/federation/v1/send/1", False),
        (b"POST", b"/_matrix/key/v2/query", False),
        (b"POST", b"/elsewhere", False),
        (b"OPTIONS", C + b"/sync", False),
    ],
)
def test_routes_say_whether_a_token_belongs_to_them(method, target, takes):
    assert find_endpoint(method, target).takes_token is takes


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        (b"GET", b"/rooms/!a/state", "state"),
        (b"GET", b"/rooms/!a/state/m.room.name/", "state"),
        (b"PUT", b"/rooms/!a/state/m.room.name", "other"),
        (b"GET", b"/rooms/!a/members", "members"),
        (b"GET", b"/rooms/!a/joined_members", "other"),
        (b"POST", b"/keys/query", "keys_query"),
        (b"GET", b"/keys/changes", "keys_changes"),
        (b"GET", b"/rooms/!a/messages", "messages"),
    ],
)
def test_what_a_homeserver_may_end_with_its_client_has_a_name(method, path, name):
    assert find_endpoint(method, C + path).name == name


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"?timeout=30000", 30),
        (b"?since=s1&timeout=1500", 1.5),
        (b"?timeout=0&since=s", 0),
        (b"", None),
        (b"?timeout=", None),
        (b"?timeout=-1", None),
        (b"?timeout=3e4", None),
        (b"?timeout=1&timeout=2", None),
        (b"?xtimeout=5", None),
    ],
)
def test_the_timeout_of_a_long_poll_is_read_only_where_it_is_clear(query, seconds):
    assert sync_timeout_s(C + b"/sync" + query) == seconds
