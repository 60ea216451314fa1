import json

import pytest

from proxy.identity.whoami import MAX_BODY_BYTES, Denied, Named, outcome


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"user_id": "@a:x", "device_id": "D", "is_guest": False}, Named("@a:x", "D", guest=False)),
        ({"user_id": "@a:x"}, Named("@a:x", None, guest=False)),
        ({"user_id": "@a:x", "device_id": None}, Named("@a:x", None, guest=False)),
        (
            {"user_id": "@1:x", "device_id": "guest_device", "is_guest": True},
            Named("@1:x", "guest_device", guest=True),
        ),
        ({"user_id": "@a:x", "org.example": [1, {}]}, Named("@a:x", None, guest=False)),
        ({"user_id": "@ü:x", "device_id": "mein Gerät"}, Named("@ü:x", "mein Gerät", guest=False)),
    ],
)
def test_an_answer_names_account_device_and_guest(body, named):
    assert outcome(200, json.dumps(body).encode()) == named


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"@a:x"',
        b"<html>",
        b"\xff\xfe",
        b"{}",
        b'{"user_id": null}',
        b'{"user_id": 1}',
        b'{"user_id": ""}',
        b'{"user_id": "a:x"}',
        b'{"user_id": ["@a:x"]}',
        b'{"user_id": "@a:x", "device_id": 1}',
        b'{"user_id": "@a:x", "device_id": ""}',
        b'{"user_id": "@a:x", "device_id": {}}',
        b'{"user_id": "@a:x", "is_guest": 1}',
        b'{"user_id": "@a:x", "is_guest": "false"}',
        b'{"user_id": "@a:x", "is_guest": null}',
        b'{"user_id": "@a\\n:x"}',
        b'{"user_id": "@a\\u0000:x"}',
        b'{"user_id": "@\\ud800:x"}',
        b'{"user_id": "@a:x", "device_id": "\\ud800"}',
        b'{"user_id": "@' + b"a" * 255 + b'"}',
        b'{"user_id": "@a:x", "x": ' + b"[" * 5000 + b"]" * 1000 + b"}",
        b"[" * MAX_BODY_BYTES,
        b'{"user_id": "@a:x"}' + b" " * MAX_BODY_BYTES,
        b'{"user_id": "@a:x", "n": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_body_that_is_no_whoami_tells_nothing_and_raises_nothing(body):
    assert outcome(200, body) is None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 418, 499])
def test_a_refusal_is_kept_with_its_answer(status):
    assert outcome(status, b"{}", b"HTTP/1.1 ...") == Denied(status, b"HTTP/1.1 ...")


@pytest.mark.parametrize("status", [0, 100, 201, 204, 302, 429, 500, 502, 503, 504])
def test_everything_else_tells_nothing(status):
    assert outcome(status, b'{"user_id": "@a:x"}') is None
