import pytest
from pydantic import ValidationError

from proxy.egress.settings import EgressSettings


def test_it_is_off_by_default_and_for_this_machine_only():
    settings = EgressSettings()
    assert settings.listen is None
    assert settings.clients == ("127.0.0.0/8", "::1/128")
    assert settings.allow == settings.gateways == ()
    assert (settings.failure_threshold, settings.cooldown_seconds, settings.max_tracked) == (3, 300, 4096)


def test_gateways_get_one_spelling():
    settings = EgressSettings(
        gateways=("Push.Example.", "push.example:0443", "[2001:DB8::1]:5000", "2001:db8::2")
    )
    assert settings.gateways == ("push.example", "push.example:443", "[2001:db8::1]:5000", "2001:db8::2")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("allow", ("10.0.0.1/8",), "is no network"),
        ("allow", ("example.org",), "is no network"),
        ("clients", ("10.0.0.0/33",), "is not a network"),
        ("clients", ("10.0.0.1/8",), "has bits beyond its prefix"),
        ("clients", ("fe80::1%lo",), "has a zone"),
        ("gateways", ("https://push.example",), "is no gateway"),
        ("gateways", ("push.example/x",), "is no gateway"),
        ("gateways", ("2130706433",), "is no gateway"),
        ("listen", {"address": "localhost"}, "has no port"),
        ("failure_threshold", 0, "greater than or equal to 1"),
    ],
)
def test_a_mistake_is_named(field, value, words):
    with pytest.raises(ValidationError, match=words):
        EgressSettings(**{field: value})
