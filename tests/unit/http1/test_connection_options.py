import pytest

from proxy.errors import Reason, Refused
from proxy.http1.request_head import parse_request_head
from proxy.http1.response_head import ResponseBrokenError, parse_response_head


def options(number):
    return [b"x-%d" % at for at in range(number)]


def in_one_field(number):
    return b"\r\nConnection: " + b", ".join(options(number))


def in_a_field_each(number):
    return b"".join(b"\r\nConnection: " + option for option in options(number))


def request(fields):
    return parse_request_head(
        b"GET / HTTP/1.1\r\nHost: a" + fields + b"\r\n\r\n", max_fields=100, max_target_bytes=16_384
    )


def response(fields):
    return parse_response_head(b"HTTP/1.1 200 OK\r\nContent-Length: 2" + fields + b"\r\n\r\n", method=b"GET")


SPREADS = pytest.mark.parametrize("spread", [in_one_field, in_a_field_each])


@SPREADS
def test_as_many_options_as_anybody_needs_are_allowed(spread):
    assert b"\r\nX-31:" not in request(spread(32) + b"\r\nX-31: a").fields.wire


@SPREADS
@pytest.mark.parametrize("number", [33, 95])
def test_more_options_are_refused(spread, number):
    with pytest.raises(Refused) as refused:
        request(spread(number))
    assert refused.value.reason is Reason.HEAD_TOO_LARGE


def test_options_are_refused_however_many_fields_they_are_spread_over():
    fields = b"".join(
        b"\r\nConnection: " + b",".join(b"%d-%d" % (field, at) for at in range(165)) for field in range(95)
    )
    with pytest.raises(Refused) as refused:
        request(fields)
    assert refused.value.reason is Reason.HEAD_TOO_LARGE


@SPREADS
def test_the_homeserver_may_name_no_more(spread):
    assert response(spread(32)).status == 200
    with pytest.raises(ResponseBrokenError):
        response(spread(33))


@pytest.mark.parametrize("name", [b"X-Request-Id", b"Host", b"Authorization", b"Content-Type"])
def test_what_others_rely_on_is_kept_though_it_is_named(name):
    value = b"\r\n" + name + b": abc"
    head = request(b"\r\nConnection: " + name.lower() + (b"" if name == b"Host" else value))
    if name not in (b"Host", b"X-Request-Id"):
        assert value in head.fields.wire
