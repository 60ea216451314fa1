import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.policies.address_guard import REFUSED_PORTS, AddressGuard, hidden_v4

NOBODY = AddressGuard()


def allowing(*networks):
    return AddressGuard(ipaddress.ip_network(text) for text in networks)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.0.0.1", "172.32.0.1", "192.169.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_public_addresses_are_allowed(address):
    assert NOBODY.allows(address)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.255.255.254",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
        ),
        *(
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "169.254.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
        ),
        *(
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "192.88.99.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
        ),
        *("255.255.255.255", "168.63.129.16", "100.100.100.200", "192.0.0.192"),
        *(
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "ff02::1",
            "2001:db8::1",
        ),
        *("3fff::1", "100::1", "5f00::1", "4000::1", "e000::1", "2001:10::1", "2001:20::1", "2001:2::1"),
    ],
)
def test_what_is_not_the_public_internet_is_refused(address):
    assert not NOBODY.allows(address)


@pytest.mark.parametrize("inner", ["8.8.8.8", "127.0.0.1", "10.0.0.1", "169.254.169.254"])
@pytest.mark.parametrize(
    "form",
    [
        "::{}",
        "::ffff:{}",
        "::ffff:0:{}",
        "64:ff9b::{}",
        "64:ff9b:1::{}",
        "2002:{hex}::1",
        "2001:0:1:1::{inverted}",
    ],
)
def test_every_ipv6_form_of_an_ipv4_address_is_refused(form, inner):
    number = int(ipaddress.IPv4Address(inner))
    written = f"{number >> 16:x}:{number & 0xFFFF:x}"
    inverted = f"{(number >> 16) ^ 0xFFFF:x}:{(number & 0xFFFF) ^ 0xFFFF:x}"
    address = form.format(inner, hex=written, inverted=inverted)

    assert hidden_v4(ipaddress.IPv6Address(address)) == ipaddress.IPv4Address(inner)
    assert not NOBODY.allows(address)


def test_an_isatap_address_is_judged_by_the_one_inside():
    assert not NOBODY.allows("2606:4700::5efe:10.0.0.1")
    assert not NOBODY.allows("2606:4700::200:5efe:192.168.0.1")
    assert NOBODY.allows("2606:4700::200:5efe:8.8.8.8")


def test_a_form_needs_its_own_network_and_an_allowed_address_inside():
    nat64 = allowing("64:ff9b::/96")
    assert nat64.allows("64:ff9b::8.8.8.8")
    assert not nat64.allows("64:ff9b::10.0.0.1")
    assert allowing("64:ff9b::/96", "10.0.0.0/8").allows("64:ff9b::10.0.0.1")
    assert not allowing("127.0.0.0/8").allows("::ffff:127.0.0.1")
    assert not allowing("::ffff:0:0/96").allows("::ffff:127.0.0.1")


def test_what_the_operator_names_is_allowed_and_nothing_beside_it():
    guard = allowing("10.1.0.0/16", "fd00:1::/32", "127.0.0.1")
    assert guard.allows("10.1.255.255")
    assert guard.allows("fd00:1::5")
    assert guard.allows("127.0.0.1")
    assert not guard.allows("10.2.0.1")
    assert not guard.allows("fd00:2::5")
    assert not guard.allows("127.0.0.2")


def test_a_metadata_address_needs_an_entry_of_its_own():
    assert not allowing("169.254.0.0/16").allows("169.254.169.254")
    assert not allowing("0.0.0.0/0", "::/0").allows("fd00:ec2::254")
    assert allowing("169.254.0.0/16").allows("169.254.1.1")
    assert allowing("169.254.169.254").allows("169.254.169.254")


def test_the_unspecified_address_is_never_allowed():
    everywhere = allowing("0.0.0.0/0", "::/0")
    assert everywhere.allows("10.0.0.1")
    assert not everywhere.allows("0.0.0.0")
    assert not everywhere.allows("::")


@pytest.mark.parametrize(
    "text", ["fe80::1%eth0", "2606:4700::1%1", "localhost", "", "0x7f.0.0.1", "127.1", "017700000001"]
)
def test_what_is_no_plain_address_is_refused(text):
    assert not allowing("0.0.0.0/0", "::/0").allows(text)


def test_ports_of_other_protocols_are_refused():
    assert {0, 22, 25, 53, 110, 143, 6379, 11211} <= REFUSED_PORTS
    assert not {80, 443, 448, 5000, 8008, 8080, 8443, 8448} & REFUSED_PORTS


@given(st.ip_addresses())
def test_whatever_is_allowed_is_global_for_python_too(address):
    if NOBODY.allows(str(address)):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@given(st.ip_addresses(v=4, network="10.0.0.0/8") | st.ip_addresses(v=4, network="127.0.0.0/8"))
def test_no_form_of_a_private_address_gets_through(inner):
    number = int(inner)
    for address in (
        ipaddress.IPv6Address(number),
        ipaddress.IPv6Address(0xFFFF_0000_0000 | number),
        ipaddress.IPv6Address((0x0064_FF9B << 96) | number),
        ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1),
        ipaddress.IPv6Address((0x2001_0000 << 96) | (number ^ 0xFFFF_FFFF)),
        ipaddress.IPv6Address((0x2606_4700 << 96) | (0x5EFE << 32) | number),
    ):
        assert not NOBODY.allows(str(address)), address
