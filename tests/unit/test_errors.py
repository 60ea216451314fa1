import json

import pytest

from proxy.egress.reasons import EgressReason
from proxy.errors import Reason, refusal_bytes


def parts(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    return int(line.split()[1]), dict(field.split(": ", 1) for field in fields), body


@pytest.mark.parametrize("reason", [*Reason, *EgressReason])
def test_every_refusal_is_json_that_any_web_client_may_read(reason):
    status, fields, body = parts(refusal_bytes(reason, retry_after_s=None, close=False))
    assert status == reason.status
    assert fields["Fairgate-Reason"] == reason.value
    assert fields["Content-Type"] == "application/json"
    assert fields["Access-Control-Allow-Origin"] == "*"
    assert fields["Cache-Control"] == "no-store"
    assert int(fields["Content-Length"]) == len(body)
    assert json.loads(body) == {"errcode": reason.errcode, "error": reason.text}


@pytest.mark.parametrize("reason", [*Reason, *EgressReason])
def test_no_refusal_makes_clients_throw_away_their_session_or_their_keys(reason):
    assert reason.errcode != "M_UNKNOWN_TOKEN"
    assert (reason.status == 401) is (
        reason is Reason.MISSING_TOKEN
    )  # whose request had no usable token (§3.4)
    assert not (reason.status == 400 and reason.retry)


@pytest.mark.parametrize(
    ("seconds", "field", "milliseconds"), [(0.2, "1", 1000), (4.2, "5", 4200), (99, "60", 60_000)]
)
def test_both_hints_name_the_same_moment_within_a_minute(seconds, field, milliseconds):
    _, fields, body = parts(refusal_bytes(Reason.UPSTREAM_BUSY, retry_after_s=seconds, close=False))
    assert fields["Retry-After"] == field
    assert json.loads(body)["retry_after_ms"] == milliseconds
    assert "Retry-After" in fields["Access-Control-Expose-Headers"]


def test_a_refusal_says_when_it_is_the_last():
    assert parts(refusal_bytes(Reason.BAD_FIELD, retry_after_s=None, close=True))[1]["Connection"] == "close"
    assert "Connection" not in parts(refusal_bytes(Reason.BAD_FIELD, retry_after_s=None, close=False))[1]


def test_a_refusal_to_head_has_the_length_but_no_body():
    whole = parts(refusal_bytes(Reason.BAD_FIELD, retry_after_s=None, close=False))
    assert parts(refusal_bytes(Reason.BAD_FIELD, retry_after_s=None, close=False, head_only=True)) == (
        *whole[:2],
        b"",
    )


def test_a_method_not_allowed_is_told_which_are():
    assert (
        "PATCH" in parts(refusal_bytes(Reason.METHOD_NOT_ALLOWED, retry_after_s=None, close=True))[1]["Allow"]
    )
