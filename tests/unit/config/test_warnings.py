import pytest

from proxy.config.mistakes import path_text
from proxy.config.parse import parse
from proxy.config.settings import Settings
from proxy.config.warnings import warnings


def dangers(text):
    return [path_text(location) for location, _ in warnings(parse(text, {}))]


def test_the_defaults_are_not_dangerous():
    assert list(warnings(Settings())) == []


@pytest.mark.parametrize("place", ["clients.trusted_proxies", "egress.clients", "egress.allow"])
@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0"])
def test_a_network_of_everybody_is_warned_of(place, network):
    section, key = place.split(".")
    text = f"{section}:\n  {key}: [10.0.0.0/8, '{network}']\n"
    assert dangers(text) == [f"{place}[1]"]
    ((_, words),) = warnings(parse(text, {}))
    assert words.startswith(network)


def test_proxies_at_unix_sockets_and_single_networks_are_no_danger():
    assert dangers("clients: {trusted_proxies: [unix, 10.0.0.0/8]}\negress: {clients: [10.0.0.1]}") == []


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "'[::]:1'", "10.0.0.1:1", "admin.example:1"])
def test_an_admin_listener_that_others_reach_wants_a_token(listen):
    assert dangers(f"admin: {{listen: {listen}}}") == ["admin.listen"]
    assert dangers(f"admin: {{listen: {listen}, token: 0123456789abcdef}}") == []


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.9.9.9:1", "'[::1]:1'", "localhost:1", "unix:/run/a"])
def test_an_admin_listener_of_this_machine_alone_needs_none(listen):
    assert dangers(f"admin: {{listen: {listen}}}") == []
