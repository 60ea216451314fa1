import ipaddress

import pytest

from proxy.identity.networks import Networks, parse_address, parse_network


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("192.0.2.1", "192.0.2.1/32"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
    ],
)
def test_networks_are_written_as_everywhere(text, network):
    assert parse_network(text) == ipaddress.ip_network(network)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("localhost", "is not a network"),
        ("", "is not a network"),
        ("10", "is not a network"),
        ("10.0.0.0/33", "is not a network"),
        ("10.0.0.1/8", "write 10.0.0.0/8"),
        ("2001:db8::1/32", "write 2001:db8::/32"),
        ("fe80::%eth0/64", "network|zone"),
        ("fe80::1%eth0", "zone"),
    ],
)
def test_a_mistake_is_told_in_words(text, words):
    with pytest.raises(ValueError, match=words):
        parse_network(text)


def test_many_networks_of_many_lengths_are_told_apart():
    networks = Networks(
        [f"10.{number}.0.0/16" for number in range(0, 256, 2)] + ["192.0.2.128/25", "2001:db8::/33", "unix"]
    )
    assert parse_address("10.4.1.1") in networks
    assert parse_address("10.5.1.1") not in networks
    assert parse_address("192.0.2.129") in networks
    assert parse_address("192.0.2.127") not in networks
    assert parse_address("2001:db8:7fff::1") in networks
    assert parse_address("2001:db8:8000::1") not in networks
    assert parse_address("::ffff:10.4.1.1") in networks
    assert None in networks


def test_everything_and_nothing():
    assert parse_address("192.0.2.1") in Networks(["0.0.0.0/0"])
    assert parse_address("::2") not in Networks(["0.0.0.0/0"])
    assert parse_address("::2") in Networks(["::/0"])
    assert parse_address("192.0.2.1") not in Networks([])
    assert None not in Networks([])
    assert not Networks([])
    assert Networks(["unix"])
    assert Networks(["::1"])


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "01.2.3.4", "1.2.3.4/32", "[::1]", "::1::", "1" * 100])
def test_what_is_no_address_is_none(text):
    assert parse_address(text) is None
