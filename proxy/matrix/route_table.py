"""The table of routes as data: method and path to endpoint, all homeservers and prefixes (behaviour.md §4.1, §5, §6.1). Pure.

A path that no homeserver serves may stand here: it gets its 404 from any lane. What is missing is an ordinary request.
"""

import re
from typing import Final

from proxy.matrix.endpoint import Endpoint, Lane, Poll, RouteClass
from proxy.matrix.sync_request import work_of


def _by_server(query: bytes) -> Endpoint:
    """Public rooms of another server come from there; an empty or unclear `server` counts as one."""
    return _REMOTE_PUBLIC_ROOMS if _SERVER.search(b"&" + query) else _PUBLIC_ROOMS


def _poll(name: str, poll: Poll, position: bytes) -> Endpoint:
    """Make the endpoint of a long poll: a first sync, one that answers at once, one that waits."""
    waits = Endpoint(name=name, route=RouteClass.SYNC, poll=poll)
    instant = Endpoint(name=name, route=RouteClass.SYNC, poll=poll, lane=Lane.REQUESTS)
    first = Endpoint(name=name, route=RouteClass.FIRST_SYNC, poll=poll)
    by_work = (waits, instant, first)  # WAITS, INSTANT, FIRST
    instant_by_default = poll is not Poll.EVENTS  # Synapse waits 30 s there

    def branch(query: bytes) -> Endpoint:
        return by_work[work_of(query, position, instant_by_default=instant_by_default)]

    return Endpoint(name=name, route=RouteClass.FIRST_SYNC, poll=poll, branch=branch)


def _vital(name: str) -> Endpoint:
    return Endpoint(name=name, route=RouteClass.VITAL, takes_token=False)


def _history(name: str) -> Endpoint:
    return Endpoint(name=name, route=RouteClass.HISTORY)


def _media(name: str) -> Endpoint:
    return Endpoint(name=name, route=RouteClass.MEDIA)


def _remote(name: str) -> Endpoint:
    return Endpoint(name=name, route=RouteClass.REMOTE)


def _open(name: str) -> Endpoint:
    return Endpoint(name=name, takes_token=False)


_SERVER: Final = re.compile(rb"[&;](?:server=|[^=&;]*[%+])")
_PUBLIC_ROOMS: Final = Endpoint(name="public_rooms")
_REMOTE_PUBLIC_ROOMS: Final = _remote("public_rooms")
OPTIONS: Final = _vital("options")
OTHER: Final = _open("other")
_OTHER_CLIENT: Final = Endpoint(name="other")
_OTHER_MEDIA: Final = _media("media")
_OTHER_FEDERATION: Final = Endpoint(name="federation", route=RouteClass.FEDERATION, takes_token=False)

_SYNC: Final = _poll("sync", Poll.SYNC, b"since")
_SLIDING_SYNC: Final = _poll("sliding_sync", Poll.SLIDING_SYNC, b"pos")
_EVENTS: Final = _poll("events", Poll.EVENTS, b"from")
_FIRST_SYNC: Final = Endpoint(name="initial_sync", route=RouteClass.FIRST_SYNC)
_UPLOAD: Final = Endpoint(name="upload", route=RouteClass.MEDIA, is_upload=True)
_MEDIA_CONFIG: Final = Endpoint(name="media_config", route=RouteClass.MEDIA)
_PUSHERS_SET: Final = Endpoint(name="pushers_set", sets_pusher=True)
_LOGOUT: Final = Endpoint(name="logout", kills_token=True)
_PASSWORD: Final = Endpoint(name="password", kills_token=True, takes_token=False)
_DEACTIVATE: Final = Endpoint(name="deactivate", kills_token=True)
_DEVICES: Final = Endpoint(name="devices", kills_token=True)
_REFRESH: Final = Endpoint(name="refresh", kills_token=True, takes_token=False)
_LOGIN: Final = Endpoint(name="login", kills_token=True, takes_token=False)
_REGISTER: Final = Endpoint(name="register", kills_token=True, takes_token=False)
_REQUEST_TOKEN: Final = _open("request_token")
_STATE: Final = Endpoint(name="state")
_MEMBERS: Final = Endpoint(name="members")
_KEYS_QUERY: Final = _remote("keys_query")
_KEYS_CLAIM: Final = _remote("keys_claim")
_HIERARCHY: Final = _remote("hierarchy")
_ROOM_SUMMARY: Final = _remote("room_summary")
_JOIN: Final = _remote("join")
_RELATIONS: Final = _history("relations")
_RENDEZVOUS: Final = _open("rendezvous")
_AUTH_METADATA: Final = _vital("auth_metadata")
_HEALTH: Final = _vital("health")

#: The versions under `/_matrix/client/`, of whatever age.
PREFIXES: Final = ("api/v1", "r0", "v1", "v2_alpha", "v3", "v4", "unstable")
#: `{}` is any one segment, `**` any rest of at least one. `V` stands for the client API at each of PREFIXES.
ROWS: Final[tuple[tuple[str, str, Endpoint], ...]] = (
    # Long polls and what puts a whole account or room together.
    ("GET", "V/sync", _SYNC),
    ("POST", "_matrix/client/unstable/org.matrix.simplified_msc3575/sync", _SLIDING_SYNC),
    ("POST", "_matrix/client/unstable/org.matrix.msc3575/sync", _SLIDING_SYNC),
    ("POST", "_matrix/client/v4/sync", _SLIDING_SYNC),
    ("GET", "V/events", _EVENTS),
    ("GET", "V/initialSync", _FIRST_SYNC),
    ("GET", "V/rooms/{}/initialSync", _FIRST_SYNC),
    # Media.
    ("POST", "_matrix/media/{}/upload", _UPLOAD),
    ("PUT", "_matrix/media/{}/upload/{}/{}", _UPLOAD),
    ("PUT", "_matrix/media/unstable/fi.mau.msc2246/upload/{}/{}", _UPLOAD),
    ("GET", "_matrix/media/{}/config", _MEDIA_CONFIG),
    ("GET", "V/media/config", _MEDIA_CONFIG),
    ("*", "V/media/**", _OTHER_MEDIA),
    ("*", "_matrix/client/unstable/org.matrix.msc3916/media/**", _OTHER_MEDIA),
    # Accounts.
    ("POST", "V/pushers/set", _PUSHERS_SET),
    ("POST", "V/logout", _LOGOUT),
    ("POST", "V/logout/all", _LOGOUT),
    ("POST", "V/account/password", _PASSWORD),
    ("POST", "V/account/deactivate", _DEACTIVATE),
    ("DELETE", "V/devices/{}", _DEVICES),
    ("POST", "V/delete_devices", _DEVICES),
    ("POST", "V/refresh", _REFRESH),
    ("GET POST", "V/login", _LOGIN),
    ("GET", "V/login/sso/redirect", _LOGIN),
    ("GET", "V/login/sso/redirect/{}", _LOGIN),
    ("GET", "V/login/cas/redirect", _LOGIN),
    ("GET", "V/login/cas/ticket", _LOGIN),
    ("POST", "V/register", _REGISTER),
    ("GET", "V/register/available", _open("register")),
    ("GET", "V/register/m.login.registration_token/validity", _open("register")),
    ("POST", "V/register/{}/requestToken", _REQUEST_TOKEN),
    ("POST", "V/account/password/{}/requestToken", _REQUEST_TOKEN),
    ("POST", "V/account/3pid/{}/requestToken", _REQUEST_TOKEN),
    # History.
    ("GET", "V/rooms/{}/messages", _history("messages")),
    ("GET", "V/rooms/{}/context/{}", _history("context")),
    ("GET", "V/rooms/{}/relations/{}", _RELATIONS),
    ("GET", "V/rooms/{}/relations/{}/{}", _RELATIONS),
    ("GET", "V/rooms/{}/relations/{}/{}/{}", _RELATIONS),
    ("POST", "V/search", _history("search")),
    # What some homeservers end with its client (§8).
    ("GET", "V/rooms/{}/members", _MEMBERS),
    ("GET", "V/rooms/{}/state", _STATE),
    ("GET", "V/rooms/{}/state/{}", _STATE),
    ("GET", "V/rooms/{}/state/{}/{}", _STATE),
    ("GET", "V/keys/changes", Endpoint(name="keys_changes")),
    # What waits for other servers.
    ("POST", "V/keys/query", _KEYS_QUERY),
    ("POST", "V/keys/claim", _KEYS_CLAIM),
    ("POST", "_matrix/client/unstable/org.matrix.msc3983/keys/claim", _KEYS_CLAIM),
    ("POST", "V/join/{}", _JOIN),
    ("PUT", "V/join/{}/{}", _JOIN),
    ("POST", "V/rooms/{}/join", _JOIN),
    ("PUT", "V/rooms/{}/join/{}", _JOIN),
    ("POST", "V/knock/{}", _remote("knock")),
    ("GET", "V/directory/room/{}", _remote("directory")),
    ("GET", "V/profile/{}", _remote("profile")),
    ("GET", "V/profile/{}/{}", _remote("profile")),
    ("GET POST", "V/publicRooms", Endpoint(name="public_rooms", branch=_by_server)),
    ("GET", "V/rooms/{}/hierarchy", _HIERARCHY),
    ("GET", "_matrix/client/unstable/org.matrix.msc2946/rooms/{}/hierarchy", _HIERARCHY),
    ("GET", "V/rooms/{}/timestamp_to_event", _remote("timestamp_to_event")),
    ("GET", "V/room_summary/{}", _ROOM_SUMMARY),
    ("GET", "_matrix/client/unstable/im.nheko.summary/rooms/{}/summary", _ROOM_SUMMARY),
    ("GET", "_matrix/client/unstable/im.nheko.summary/summary/{}", _ROOM_SUMMARY),
    # Without an account's token, by other servers and by people's first steps.
    ("*", "_matrix/federation/**", _OTHER_FEDERATION),
    ("*", "_matrix/key/**", _OTHER_FEDERATION),
    ("*", "_matrix/client/unstable/org.matrix.msc4108/rendezvous", _RENDEZVOUS),
    ("*", "_matrix/client/unstable/org.matrix.msc4108/rendezvous/**", _RENDEZVOUS),
    ("*", "_matrix/client/unstable/io.element.msc4388/rendezvous", _RENDEZVOUS),
    ("*", "_matrix/client/unstable/io.element.msc4388/rendezvous/**", _RENDEZVOUS),
    ("GET", "_matrix/client/versions", _vital("versions")),
    ("GET", ".well-known/**", _vital("well_known")),
    ("GET", "V/auth_metadata", _AUTH_METADATA),
    ("GET", "_matrix/client/unstable/org.matrix.msc2965/auth_metadata", _AUTH_METADATA),
    ("GET", "_matrix/client/unstable/org.matrix.msc2965/auth_issuer", _AUTH_METADATA),
    ("GET", "health", _HEALTH),
    ("GET", "_dendrite/monitor/up", _HEALTH),
    ("GET", "_dendrite/monitor/health", _HEALTH),
    # The rest.
    ("*", "_matrix/media/**", _OTHER_MEDIA),
    ("*", "_matrix/client/**", _OTHER_CLIENT),
    ("*", "_synapse/admin/**", _OTHER_CLIENT),
    ("*", "_dendrite/admin/**", _OTHER_CLIENT),
)
