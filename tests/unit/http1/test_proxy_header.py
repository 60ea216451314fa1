import socket
import struct

import pytest

from proxy.http1.proxy_header import BadProxyHeaderError, read_proxy_header

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def v2(command, family, rest, length=None):
    return (
        SIGNATURE
        + bytes([command, family])
        + struct.pack(">H", len(rest) if length is None else length)
        + rest
    )


TCP4 = socket.inet_aton("192.0.2.1") + socket.inet_aton("10.0.0.1") + struct.pack(">HH", 4711, 443)
TCP6 = (
    socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    + socket.inet_pton(socket.AF_INET6, "::1")
    + b"\x12\x67\x01\xbb"
)
LOCAL_SOCKET = b"/run/client".ljust(108, b"\0") + b"/run/fairgate".ljust(108, b"\0")
TLV = b"\x04\x00\x03abc" + b"\x20\x00\x05\x01\0\0\0\0"

GOOD = [
    (b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\r\n", "192.0.2.1"),
    (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255"),
    (b"PROXY TCP4 192.0.2.1 10.0.0.1 0 0\r\n", "192.0.2.1"),
    (b"PROXY TCP6 2001:db8::1 ::1 4711 443\r\n", "2001:db8::1"),
    (b"PROXY TCP6 2001:DB8:0:0:0:0:0:1 ::1 4711 443\r\n", "2001:db8::1"),
    (b"PROXY UNKNOWN\r\n", None),
    (
        b"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
        None,
    ),
    (v2(0x21, 0x11, TCP4), "192.0.2.1"),
    (v2(0x21, 0x21, TCP6), "2001:db8::1"),
    (v2(0x21, 0x31, LOCAL_SOCKET), "unix"),
    (v2(0x21, 0x11, TCP4 + TLV), "192.0.2.1"),
    (v2(0x21, 0x11, TCP4 + TLV * 290), "192.0.2.1"),
    (v2(0x20, 0x00, b""), None),
    (v2(0x20, 0x11, TCP4), None),
    (v2(0x20, 0xFF, b"whatever"), None),
    (v2(0x21, 0x00, b""), None),
    (v2(0x21, 0x00, b"\xff\xff\xff"), None),
]


@pytest.mark.parametrize(("header", "source"), GOOD)
def test_a_header_tells_who_connected_and_where_it_ends(header, source):
    read = read_proxy_header(header + b"GET / HTTP/1.1\r\n")
    assert read is not None
    assert (read.source, read.length) == (source, len(header))


@pytest.mark.parametrize("header", [header for header, _ in GOOD])
def test_in_any_cut_it_is_the_same_header(header):
    for end in range(0, len(header), 7 if len(header) > 300 else 1):
        assert read_proxy_header(header[:end]) is None
    assert read_proxy_header(header).length == len(header)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01",
        b"proxy TCP4 192.0.2.1 10.0.0.1 4711 443\r\n",
        b"PROXY\tTCP4 192.0.2.1 10.0.0.1 4711 443\r\n",
        b"PROXY  TCP4 192.0.2.1 10.0.0.1 4711 443\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\rx",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443 \r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 65536\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 -1 443\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0.1 x 443\r\n",
        b"PROXY TCP4 192.0.2.256 10.0.0.1 4711 443\r\n",
        b"PROXY TCP4 192.0.2.1 10.0.0 4711 443\r\n",
        b"PROXY TCP4 2001:db8::1 ::1 4711 443\r\n",
        b"PROXY TCP6 192.0.2.1 10.0.0.1 4711 443\r\n",
        b"PROXY TCP5 192.0.2.1 10.0.0.1 4711 443\r\n",
        b"PROXY UDP4 192.0.2.1 10.0.0.1 4711 443\r\n",
        b"PROXY UNKNOWNX\r\n",
        b"PROXY UNKNOWN \x00\r\n",
        b"PROXY \r\n",
        b"PROXY UNKNOWN " + b"x" * 92,
        b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n",
        b"\r\n\r\n\x00\r\nQUIT\r",
        SIGNATURE + b"\x11",
        SIGNATURE + b"\x22",
        SIGNATURE + b"\x01",
        v2(0x21, 0x11, b"", length=4097)[:16],
        v2(0x21, 0x11, TCP4[:-1]),
        v2(0x21, 0x21, TCP4),
        v2(0x21, 0x31, TCP6),
        v2(0x21, 0x12, TCP4),
        v2(0x21, 0x22, TCP6),
        v2(0x21, 0x32, LOCAL_SOCKET),
        v2(0x21, 0x41, TCP6),
        v2(0x21, 0x10, TCP4),
        v2(0x21, 0x11, TCP4 + b"\x04\x00"),
        v2(0x21, 0x11, TCP4 + b"\x04\x00\x04abc"),
    ],
)
def test_anything_else_is_bad(data):
    with pytest.raises(BadProxyHeaderError):
        read_proxy_header(data)


def test_what_cannot_become_a_header_is_bad_at_its_first_wrong_byte():
    for start in (b"PROX", b"PROXY ", SIGNATURE[:5], SIGNATURE):
        assert read_proxy_header(start) is None
        with pytest.raises(BadProxyHeaderError):
            read_proxy_header(start[:-1] + b"!")


def test_a_line_has_at_most_107_bytes():
    longest = b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n"
    assert len(longest) == 107
    assert read_proxy_header(longest).length == 107
    assert read_proxy_header(longest[:-2]) is None
    with pytest.raises(BadProxyHeaderError):
        read_proxy_header(b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n")


def test_a_length_beyond_the_bound_is_bad_before_it_is_read():
    assert read_proxy_header(v2(0x20, 0x00, b"", length=4096)) is None
    with pytest.raises(BadProxyHeaderError):
        read_proxy_header(v2(0x20, 0x00, b"", length=4097))
