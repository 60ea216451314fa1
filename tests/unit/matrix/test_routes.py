import pytest

from proxy.matrix.routes import RouteClass, classify, sync_timeout_s

C = b"/_matrix/client/v3"


@pytest.mark.parametrize(
    ("target", "route"),
    [
        (b"/_matrix/client/versions", RouteClass.VITAL),
        (b"/_matrix/client/v1/auth_metadata", RouteClass.VITAL),
        (b"/.well-known/matrix/client", RouteClass.VITAL),
        (b"/health", RouteClass.VITAL),
        (C + b"/account/whoami", RouteClass.REQUESTS),
        (C + b"/rooms/!a/state", RouteClass.REQUESTS),
        (C + b"/rooms/!a/messages?dir=b", RouteClass.HISTORY),
        (C + b"/rooms/!a/context/$b", RouteClass.HISTORY),
        (C + b"/search", RouteClass.HISTORY),
        (b"/_matrix/client/v1/rooms/!a/relations/$b", RouteClass.HISTORY),
        (C + b"/rooms/!a/initialSync", RouteClass.FIRST_SYNC),
        (C + b"/sync", RouteClass.FIRST_SYNC),
        (C + b"/sync?since=", RouteClass.FIRST_SYNC),
        (C + b"/sync?since=s1&full_state=true", RouteClass.FIRST_SYNC),
        (C + b"/sync?timeout=30000&since=s1", RouteClass.SYNC),
        (b"/_matrix/client/r0/sync?since=s1", RouteClass.SYNC),
        (b"/_matrix/client/api/v1/events?from=s1", RouteClass.SYNC),
        (C + b"/events/$a", RouteClass.REQUESTS),
        (b"/_matrix/client/unstable/org.matrix.simplified_msc3575/sync?pos=1", RouteClass.SYNC),
        (b"/_matrix/client/unstable/org.matrix.simplified_msc3575/sync", RouteClass.FIRST_SYNC),
        (C + b"/join/%23a%3Ab", RouteClass.REMOTE),
        (C + b"/keys/query", RouteClass.REMOTE),
        (C + b"/keys/upload", RouteClass.REQUESTS),
        (b"/_matrix/client/v1/media/download/a/b", RouteClass.MEDIA),
        (b"/_matrix/media/v3/upload", RouteClass.MEDIA),
        (b"/_matrix/federation/v1/send/1", RouteClass.FEDERATION),
        (b"/_matrix/key/v2/server", RouteClass.FEDERATION),
        (b"/_matrix/client/v9/sync", RouteClass.REQUESTS),
        (b"/", RouteClass.REQUESTS),
        (b"*", RouteClass.REQUESTS),
    ],
)
def test_the_path_tells_the_kind_of_a_request(target, route):
    assert classify(b"GET", target) == route


def test_a_preflight_is_vital_whatever_it_asks_for():
    assert classify(b"OPTIONS", C + b"/sync") == RouteClass.VITAL


@pytest.mark.parametrize(
    ("target", "route"),
    [
        (C + b"/%73ync?since=s1", RouteClass.SYNC),
        (C + b"/rooms/!a/%6dessages", RouteClass.HISTORY),
        (b"/%5fmatrix/federation/v1/version", RouteClass.FEDERATION),
        (b"/_matrix/client/%76ersions", RouteClass.REQUESTS),
    ],
)
def test_escapes_lead_to_the_stricter_kind_and_never_to_the_vital_one(target, route):
    assert classify(b"GET", target) == route


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
        (b"?timeout=99999999999", None),
        (b"?xtimeout=5", None),
    ],
)
def test_the_timeout_of_a_long_poll_is_read_only_where_it_is_clear(query, seconds):
    assert sync_timeout_s(C + b"/sync" + query) == seconds
