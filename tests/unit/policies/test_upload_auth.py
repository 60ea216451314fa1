import pytest

from proxy.identity.principal import CONFIRMED, FAILED, NO_TOKEN, REFUSED, Principal
from proxy.identity.whoami import Denied
from proxy.policies.upload_auth import BodyVerdict, judge_large_body


class SomeClient:
    key = "10.0.0.1"
    exempt = False
    address_exempt = False


def principal(standing, **more):
    return Principal(SomeClient(), standing, **more)


@pytest.mark.parametrize(
    ("who", "verdict"),
    [
        (principal(CONFIRMED, account="@a:b"), BodyVerdict.READ),
        (principal(CONFIRMED, account="@a:b", guest=True), BodyVerdict.READ),
        (principal(NO_TOKEN), BodyVerdict.MISSING_TOKEN),
        (principal(REFUSED, refusal=Denied(401, b"HTTP/1.1 401 ")), BodyVerdict.RELAY),
        (principal(REFUSED, refusal=Denied(403, b"HTTP/1.1 403 ")), BodyVerdict.RELAY),
        (principal(REFUSED, refusal=Denied(401, b"")), BodyVerdict.UNAVAILABLE),
        (principal(REFUSED, refusal=Denied(400, b"HTTP/1.1 400 ")), BodyVerdict.UNAVAILABLE),
        (principal(REFUSED), BodyVerdict.UNAVAILABLE),
        (principal(FAILED), BodyVerdict.UNAVAILABLE),
    ],
)
def test_a_large_body_is_read_only_for_whom_the_homeserver_named(who, verdict):
    assert judge_large_body(who, takes_token=True) is verdict
    assert judge_large_body(who, takes_token=False) is BodyVerdict.READ
