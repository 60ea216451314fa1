import pytest

from proxy.egress.request import parse_proxy_request
from proxy.errors import Reason, Refused


def test_a_connect_as_synapse_sends_it():
    request = parse_proxy_request(
        b"CONNECT push.example:443 HTTP/1.0\r\nProxy-Authorization: Basic x\r\n\r\n"
    )
    assert request.connect
    assert (request.host, request.port) == ("push.example", 443)
    assert not request.head.fields.keep_alive


def test_a_connect_to_an_address_without_brackets():
    request = parse_proxy_request(b"CONNECT 2001:db8::1:8448 HTTP/1.0\r\n\r\n")
    assert (request.host, request.port) == ("2001:db8::1", 8448)


def test_an_absolute_form_goes_on_as_an_origin_form_and_all_else_as_it_came():
    request = parse_proxy_request(
        b"POST http://Push.Example:9999/a//b/../%2e?x=y HTTP/1.1\r\nhOST: push.example:9999\r\nX-A: 1\r\nx-a:  2\r\n"
        b"Proxy-Authorization: Basic dTpwdw==\r\nProxy-Connection: keep-alive\r\nContent-Length: 2\r\n\r\n"
    )
    assert (request.host, request.port, request.connect) == ("push.example", 9999, False)
    assert request.wire == (
        b"POST /a//b/../%2e?x=y HTTP/1.1\r\nhOST: push.example:9999\r\nX-A: 1\r\nx-a:  2\r\nContent-Length: 2\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("target", "wire"),
    [
        (b"http://a.example", b"GET / "),
        (b"http://a.example?x", b"GET /?x "),
        (b"HTTP://a.example:80/", b"GET / "),
    ],
)
def test_a_target_without_a_path_gets_one(target, wire):
    request = parse_proxy_request(b"GET " + target + b" HTTP/1.1\r\nHost: a.example\r\n\r\n")
    assert request.wire.startswith(wire)
    assert request.port == 80


def test_http_10_needs_no_host_and_the_next_server_gets_one():
    request = parse_proxy_request(b"GET http://a.example:81/x HTTP/1.0\r\nA: b\r\n\r\n")
    assert request.wire == b"GET /x HTTP/1.1\r\nA: b\r\nHost: a.example:81\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET * HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET https://a.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET http:/a.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET http:///x HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET http://a.example#@b.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET http://a.example/#x HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET http://a.example\\@b.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"GET http://2130706433/ HTTP/1.1\r\nHost: 2130706433", Reason.BAD_TARGET),
        (b"GET http://0x7f.1/ HTTP/1.1\r\nHost: 0x7f.1", Reason.BAD_TARGET),
        (b"GET http://127%2e0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1", Reason.BAD_TARGET),
        (b"GET http://[fe80::1%25eth0]/ HTTP/1.1\r\nHost: [fe80::1%25eth0]", Reason.BAD_TARGET),
        (b"GET http://a.example:99999/ HTTP/1.1\r\nHost: a.example:99999", Reason.BAD_TARGET),
        (b"GET http://a.example:/ HTTP/1.1\r\nHost: a.example:", Reason.BAD_TARGET),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: b.example", Reason.BAD_HOST),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: a.example:81", Reason.BAD_HOST),
        (b"GET http://a.example/ HTTP/1.1\r\nX: y", Reason.BAD_HOST),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: a.example", Reason.BAD_HOST),
        (b"GET http://a.example/ HTTP/2.0\r\nHost: a.example", Reason.VERSION_UNKNOWN),
        (b"GET  http://a.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_REQUEST_LINE),
        (b"GET http://a.example/\tHTTP/1.1\r\nHost: a.example", Reason.BAD_REQUEST_LINE),
        (b"GET http://a.example/" + b"x" * 16_385 + b" HTTP/1.1\r\nHost: a.example", Reason.TARGET_TOO_LONG),
        (b"TRACE http://a.example/ HTTP/1.1\r\nHost: a.example", Reason.METHOD_NOT_ALLOWED),
        (b"CONNECT http://a.example/ HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"CONNECT a.example HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"CONNECT a.example:0 HTTP/1.0", Reason.BAD_TARGET),
        (b"CONNECT a.example:443/ HTTP/1.0", Reason.BAD_TARGET),
        (b"CONNECT u@a.example:443 HTTP/1.0", Reason.BAD_TARGET),
        (b"CONNECT 0177.0.0.1:443 HTTP/1.0", Reason.BAD_TARGET),
        (b"CONNECT [::1%eth0]:443 HTTP/1.0", Reason.BAD_TARGET),
        (b"CONNECT a.example:443 HTTP/1.0\r\nContent-Length: 3", Reason.BAD_TARGET),
        (b"CONNECT a.example:443 HTTP/1.1", Reason.BAD_HOST),
        (b"connect a.example:443 HTTP/1.1\r\nHost: a.example", Reason.BAD_TARGET),
        (b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
         Reason.AMBIGUOUS_FRAMING),
    ],
)  # fmt: skip
def test_what_is_no_request_of_a_proxys_is_refused(head, reason):
    with pytest.raises(Refused) as refused:
        parse_proxy_request(head + b"\r\n\r\n")
    assert refused.value.reason is reason
