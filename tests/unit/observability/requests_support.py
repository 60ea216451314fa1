"""Requests as the recorder sees them, without anything that runs."""

from types import SimpleNamespace

from proxy.matrix.routes import find_endpoint


def request(
    target=b"/_matrix/client/v3/joined_rooms", method=b"GET", *, started_at=100.0, wait_s=0.0, **about
):
    asking = {
        "flow": "@a:b",
        "device": "D",
        "confirmed": True,
        "guest": False,
        "appservice": False,
        "exempt": False,
    }
    principal = SimpleNamespace(
        **{key: about.get(key, value) for key, value in asking.items()}, key="192.0.2.1"
    )
    sent_at = started_at + wait_s
    return SimpleNamespace(
        head=SimpleNamespace(
            method=method, target=target, fields=SimpleNamespace(background=about.get("background", False))
        ),
        endpoint=find_endpoint(method, target),
        asker=SimpleNamespace(key="192.0.2.1"),
        principal=principal,
        ticket=SimpleNamespace(asked_at=started_at, started_at=sent_at)
        if about.get("ticket", True)
        else None,
        request_id=b"fg-1",
        status=about.get("status", 200),
        failure=about.get("failure"),
        started_at=started_at,
        sent_at=sent_at,
        times=None,
    )
