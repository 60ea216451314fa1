import json

import pytest

from proxy.policies.push_egress import (
    DeliveryEnd,
    KnownHosts,
    Lesson,
    gateway_key,
    gateway_of,
    is_delivery,
    lesson_of,
    peer_of,
)


def pusher(url, **fields):
    return json.dumps(
        {"kind": "http", "app_id": "a", "pushkey": "k", "data": {"url": url}, **fields}
    ).encode()


@pytest.mark.parametrize(
    ("url", "gateway"),
    [
        ("https://Push.Example/_matrix/push/v1/notify", ("push.example", 443)),
        ("https://push.example.:8443/_matrix/push/v1/notify?u=x", ("push.example", 8443)),
        ("HTTP://push.example", ("push.example", 80)),
        ("http://[2001:DB8::1]:5000/x", ("2001:db8::1", 5000)),
        ("https://bücher.example/_matrix/push/v1/notify", ("xn--bcher-kva.example", 443)),
    ],
)
def test_a_pusher_names_its_gateway(url, gateway):
    assert gateway_of(pusher(url)) == gateway


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"[]",
            b"null",
            b"{",
            b"\xff",
            b"[" * 100_000,
            b'{"kind":"http"}',
            b'{"kind":"http","data":[]}',
        ),
        *(
            pusher("https://push.example/", kind=None),
            pusher(7),
            pusher("ftp://push.example/"),
            pusher("push.example"),
        ),
        *(
            pusher("https://user@push.example/"),
            pusher("https://push.example:0/"),
            pusher("https://2130706433/"),
            pusher("https:///x"),
        ),
        b'{"kind":"email","data":{}}',
    ],
)
def test_what_names_no_gateway_gives_none(body):
    assert gateway_of(body) is None


def test_a_delivery_is_a_post_to_the_one_path():
    assert is_delivery(b"POST", b"/_matrix/push/v1/notify")
    assert is_delivery(b"POST", b"/_matrix/push/v1/notify?u=1")
    assert not is_delivery(b"GET", b"/_matrix/push/v1/notify")
    assert not is_delivery(b"POST", b"/_matrix/push/v1/notify/")


FAILED, REACHED, NOTHING = Lesson.FAILED, Lesson.REACHED, Lesson.NOTHING


@pytest.mark.parametrize(
    ("end", "of_gateway", "of_peer"),
    [
        (DeliveryEnd.ANSWERED, REACHED, REACHED),
        (DeliveryEnd.CONNECTED, NOTHING, REACHED),
        (DeliveryEnd.UNRESOLVED, FAILED, FAILED),
        (DeliveryEnd.UNCONNECTED, FAILED, FAILED),
        (DeliveryEnd.TLS_FAILED, FAILED, NOTHING),
        (DeliveryEnd.STALLED, FAILED, NOTHING),
        (DeliveryEnd.CLOSED, NOTHING, NOTHING),
        (DeliveryEnd.ABANDONED, NOTHING, NOTHING),
        (DeliveryEnd.DECLINED, NOTHING, NOTHING),
    ],
)
def test_what_an_end_teaches(end, of_gateway, of_peer):
    assert lesson_of(end, peer=False) is of_gateway
    assert lesson_of(end, peer=True) is of_peer


def test_plain_requests_have_a_circuit_apart_from_tls():
    assert gateway_key("push.example", 443, tls=True) == "https://push.example:443"
    assert gateway_key("::1", 443, tls=False) == "http://[::1]:443"


SIGNED = b'X-Matrix origin="{}",destination="us.example",key="ed25519:a",sig="s"'


def signed(origin):
    return SIGNED.replace(b"{}", origin)


@pytest.mark.parametrize(
    ("authorization", "host"),
    [
        (signed(b"peer.example"), "peer.example"),
        (signed(b"Peer.Example:8448"), "peer.example"),
        (signed(b"[2001:db8::1]:8448"), "2001:db8::1"),
        (b"x-matrix  destination=us.example , origin=peer.example,key=k,sig=s", "peer.example"),
        (b"X-Matrix key=origin,origin=peer.example", "peer.example"),
        (b'X-Matrix origin="a.example",origin="b.example"', None),
        (b'X-Matrix sig="x,origin=evil.example",origin="peer.example"', None),
        (b"X-Matrix origin=", None),
        (b'X-Matrix key="ed25519:a"', None),
        (b"Bearer origin=peer.example", None),
        (b"", None),
        (signed(b"0x7f.1"), None),
        (signed(b"a b"), None),
    ],
)
def test_a_signed_request_names_the_peer(authorization, host):
    assert peer_of(b"/_matrix/federation/v1/send/1", authorization) == host


@pytest.mark.parametrize(
    "target",
    [
        *(
            b"/_matrix/federation/v1/version",
            b"/_matrix/federation/v1/openid/userinfo?access_token=x",
            b"/_matrix/key/v2/server",
        ),
        *(
            b"/_matrix/federation/v1/send/",
            b"/_matrix/federation/v1/send?x",
            b"/_matrix/client/v3/sync",
            b"/_matrix/federation/v3/send/1",
        ),
        b"//_matrix/federation/v1/send/1",
    ],
)
def test_what_homeservers_answer_unsigned_makes_no_peer(target):
    assert peer_of(target, signed(b"peer.example")) is None


def test_gateways_are_those_learned_and_those_named():
    known = KnownHosts(["named.example", "other.example:8443"])
    known.learn("push.example", 443)

    assert known.is_gateway("push.example", 443)
    assert not known.is_gateway("push.example", 8443)
    assert known.is_gateway("named.example", 1234)
    assert known.is_gateway("other.example", 8443)
    assert not known.is_gateway("other.example", 443)
    known.name([])
    assert not known.is_gateway("named.example", 1234)
    assert known.is_gateway("push.example", 443)


def test_a_gateway_that_is_delivered_to_outlives_a_flood_of_registrations():
    known = KnownHosts(limit=10)
    known.learn("push.example", 443)
    for number in range(1000):
        known.learn(f"{number}.example", 443)
        assert known.is_gateway("push.example", 443)
    assert len(known.gateways) == 10


def test_learning_tells_what_is_new():
    known = KnownHosts()
    assert known.learn("push.example", 443)
    assert not known.learn("push.example", 443)
    assert known.learn_peer("peer.example")
    assert not known.learn_peer("peer.example")


def test_a_peer_is_its_name_and_what_lies_below_it():
    known = KnownHosts()
    known.learn_peer("peer.example")
    known.learn_peer("2001:db8::1")

    assert known.is_peer("peer.example")
    assert known.is_peer("matrix.peer.example")
    assert known.is_peer("2001:db8::1")
    assert not known.is_peer("example")
    assert not known.is_peer("apeer.example")
    assert not known.is_peer("peer.example.org")
    assert not known.is_peer("")
