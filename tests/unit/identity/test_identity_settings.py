import pytest
from pydantic import ValidationError

from proxy.identity.settings import ClientsSettings, IdentitySettings


def mistakes(model, **values):
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values, strict=True)
    return [(details["loc"], details["msg"]) for details in caught.value.errors()]


def test_the_defaults_trust_and_exempt_nobody():
    clients = ClientsSettings()
    assert clients.trusted_proxies == ()
    assert clients.forwarded_header == "X-Forwarded-For"
    assert clients.ipv6_prefix == 64
    assert set(clients.exempt.model_dump().values()) == {()}


def test_everything_can_be_set():
    clients = ClientsSettings.model_validate(
        {
            "trusted_proxies": ("10.0.0.0/8", "::1", "unix"),
            "forwarded_header": "Forwarded",
            "ipv6_prefix": 56,
            "exempt": {
                "accounts": ("@mod*:x",),
                "devices": ("@a:x/D",),
                "appservices": ("@irc:x",),
                "networks": ("192.0.2.0/24",),
            },
        },
        strict=True,
    )
    assert clients.exempt.networks == ("192.0.2.0/24",)


def test_each_mistake_is_told_where_it_is():
    ((place, words),) = mistakes(ClientsSettings, trusted_proxies=("10.0.0.0/8", "ingress"))
    assert place == ("trusted_proxies", 1)
    assert "is not a network" in words
    ((place, words),) = mistakes(ClientsSettings, exempt={"devices": ("DEV",)})
    assert place == ("exempt", "devices", 0)
    assert "@name:server/DEVICEID" in words
    assert mistakes(ClientsSettings, exempt={"accounts": ("alice",)})
    assert mistakes(ClientsSettings, exempt={"networks": ("10.0.0.1/8",)})
    assert mistakes(ClientsSettings, forwarded_header="X-Real-IP")
    assert mistakes(ClientsSettings, ipv6_prefix=129)
    assert mistakes(ClientsSettings, exempt={"users": ()})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fresh_seconds", 0),
        ("stale_seconds", -1),
        ("negative_seconds", -1),
        ("max_entries", 0),
        ("lookups", 0),
        ("lookups_per_address", 0),
        ("timeout_seconds", 0),
        ("timeout_seconds", float("inf")),
    ],
)
def test_figures_have_bounds(key, value):
    assert mistakes(IdentitySettings, **{key: value})
