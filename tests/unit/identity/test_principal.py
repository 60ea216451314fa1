import time

import pytest

from proxy.identity.client_key import ClientKeys
from proxy.identity.networks import Networks
from proxy.identity.principal import (
    CONFIRMED,
    FAILED,
    NO_TOKEN,
    REFUSED,
    Exemptions,
    Principal,
    anonymous,
    check_account_pattern,
    parse_device,
)

KEYS = ClientKeys(trusted_proxies=Networks(["203.0.113.1"]), exempt=Networks(["198.51.100.0/24"]))
CLIENT = KEYS.resolve("192.0.2.1")


def test_a_confirmed_account_is_its_own_flow():
    principal = Principal(CLIENT, CONFIRMED, account="@a:x", device="D")
    assert principal.flow == "@a:x"
    assert principal.key == "192.0.2.1"
    assert principal.confirmed
    assert principal.address_capped
    assert repr(principal) == "<Principal @a:x confirmed>"


def test_a_guest_is_confirmed_and_counts_as_its_client_key():
    principal = Principal(CLIENT, CONFIRMED, account="@1:x", device="guest_device", guest=True)
    assert principal.flow == "192.0.2.1"
    assert principal.confirmed
    assert principal.address_capped


@pytest.mark.parametrize("standing", [NO_TOKEN, REFUSED, FAILED])
def test_whoever_is_not_confirmed_counts_as_the_client_key(standing):
    principal = Principal(CLIENT, standing)
    assert principal.flow == principal.key == "192.0.2.1"
    assert not principal.confirmed
    assert principal.account is None


def test_an_appservice_is_one_flow_without_a_cap_by_address():
    principal = Principal(CLIENT, CONFIRMED, account="@bot:x", appservice=True)
    assert principal.flow == "appservice @bot:x"
    assert not principal.address_capped
    assert not principal.exempt


def test_without_a_token_a_client_is_one_object():
    assert anonymous(CLIENT) is anonymous(CLIENT)
    assert anonymous(CLIENT).standing == NO_TOKEN


def test_one_exemption_lifts_all_limits_whichever_it_is():
    exempt = KEYS.resolve("198.51.100.7")
    assert Principal(CLIENT, CONFIRMED, account="@a:x", exempt=True).exempt
    assert not Principal(CLIENT, CONFIRMED, account="@a:x", exempt=True).address_capped
    assert Principal(exempt, CONFIRMED, account="@a:x").exempt
    assert anonymous(exempt).exempt
    assert not anonymous(exempt).address_capped


def test_a_suspected_ingress_is_exempt_from_the_rules_by_address_only():
    principal = anonymous(KEYS.resolve("10.0.0.1", [b"192.0.2.1"]))
    assert not principal.exempt
    assert not principal.address_capped


EXEMPTIONS = Exemptions(
    accounts=["@mod-*:x", "@admin:x", "@b?t:y"], devices=["@a:x/DEV", "@a:x/D/E"], appservices=["@irc*:x"]
)


@pytest.mark.parametrize(
    ("account", "device", "covered"),
    [
        ("@mod-1:x", None, True),
        ("@mod-:x", "D", True),
        ("@mod-1:xy", None, False),
        ("@mod:x", None, False),
        ("@admin:x", None, True),
        ("@ADMIN:x", None, False),
        ("@administrator:x", None, False),
        ("@bot:y", None, True),
        ("@boot:y", None, False),
        ("@a:x", "DEV", True),
        ("@a:x", "D/E", True),
        ("@a:x", "dev", False),
        ("@a:x", None, False),
        ("@b:x", "DEV", False),
        ("@irc:x", None, False),
    ],
)
def test_accounts_are_globs_and_devices_belong_to_an_account(account, device, covered):
    assert EXEMPTIONS.cover(account, device, guest=False, appservice=False) is covered
    assert EXEMPTIONS.cover(account, device, guest=True, appservice=False) is False


def test_appservices_are_named_by_their_sender_and_only_they_can_be():
    assert EXEMPTIONS.cover("@irc_bot:x", None, guest=False, appservice=True)
    assert not EXEMPTIONS.cover("@irc_bot:x", None, guest=False, appservice=False)
    assert EXEMPTIONS.cover("@admin:x", None, guest=False, appservice=True)


def test_nobody_is_exempt_by_default():
    assert not Exemptions().cover("@a:x", "D", guest=False, appservice=True)


def test_what_is_special_in_expressions_is_not_special_here():
    assert Exemptions(accounts=["@a.b+c:x"]).cover("@a.b+c:x", None, guest=False, appservice=False)
    assert not Exemptions(accounts=["@a.b+c:x"]).cover("@aXbbc:x", None, guest=False, appservice=False)
    assert not Exemptions(accounts=["@a:x", "*:y"]).cover("@a:xz", None, guest=False, appservice=False)


@pytest.mark.parametrize("text", ["", "a:x", "alice", " @a:x", "@a:x y"])
def test_an_account_that_cannot_be_one_is_told_in_words(text):
    with pytest.raises(ValueError, match="write @name:server"):
        check_account_pattern(text)


def test_a_long_account_costs_its_length_and_no_power_of_it():
    exemptions = Exemptions(accounts=["@*a*a*a*a*a*b"])
    began_at = time.process_time()
    assert not exemptions.cover("@" + "a" * 60_000, None, guest=False, appservice=False)
    assert time.process_time() - began_at < 0.1


@pytest.mark.parametrize("text", ["", "DEV", "@a:x", "@a:x/", "a:x/DEV", "@a/DEV", "@a b:x/DEV"])
def test_a_device_without_its_account_is_told_in_words(text):
    with pytest.raises(ValueError, match="write @name:server/DEVICEID"):
        parse_device(text)


def test_a_local_part_may_have_a_slash():
    assert parse_device("@a/b:x.y:8448/D") == ("@a/b:x.y:8448", "D")
