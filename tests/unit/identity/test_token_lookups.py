import pytest

from proxy.identity.lookups import Lookup, Lookups, Wait
from proxy.identity.principal import Principal
from tests.fakes.whoami import Site


def test_two_run_at_once_of_a_client_and_sixteen_in_all():
    site = Site()
    for address in range(20):
        for number in range(5):
            site.request(b"%d-%d" % (address, number), f"192.0.2.{address}")
    by_key = [lookup.client.key for lookup in site.running]
    assert len(by_key) == 16
    assert max(map(by_key.count, by_key)) == 2


def test_addresses_take_turns_however_much_one_asks():
    site = Site(lookups=2)
    for number in range(50):
        site.request(b"flood-%d" % number, "198.51.100.1")
    for address in range(4):
        site.request(b"honest", f"192.0.2.{address}")  # one token: one look-up, under who asked first
        site.request(b"honest-%d" % address, f"192.0.2.{address}")
    order = []
    for _ in range(12):
        order.append(site.running[0].token)
        site.answer()
    assert order.index(b"honest") == 2
    assert {b"honest", *(b"honest-%d" % address for address in range(4))} <= set(order), (
        "within two turns of five"
    )


def test_an_address_that_is_exempt_or_an_unnamed_ingress_is_not_held_to_two():
    site = Site(exempt_networks=["203.0.113.0/24"])
    for number in range(20):
        site.request(b"token-%d" % number, "203.0.113.1")
    assert len(site.running) == 16
    site = Site()
    ingress = site.keys.resolve("10.0.0.1", [b"192.0.2.1"])
    for number in range(20):
        site.identities.wait(None, b"token-%d" % number, b"", b"", ingress, site.now)
    assert len(site.identities.start()) == 16


def test_who_waits_goes_before_renewals_of_the_same_address():
    site = Site(lookups_per_address=1)
    tokens = [site.homeserver.user(b"known-%d" % number, f"@{number}:x") for number in range(5)]
    for token in tokens:
        site.principal(token)
    site.now += 120
    for token in tokens:
        assert isinstance(site.request(token), Principal)
    wait = site.request(site.homeserver.user(b"new", "@new:x"))
    site.answer()
    assert site.answer() == [wait]
    site.settle()
    assert site.asked() == 5 + 5 + 1


def test_a_renewal_that_somebody_comes_to_wait_for_goes_first_and_stays_a_renewal_when_they_leave():
    site = Site(lookups_per_address=1)
    for token in (b"a", b"b", b"c"):
        site.principal(site.homeserver.user(token, f"@{token.decode()}:x"))
    site.asked()
    site.now += 120
    for token in (b"a", b"b", b"c"):
        site.request(token)
    wait = site.request(b"c", query=b"user_id=@ghost:x")
    site.answer()
    assert site.running[0].token == b"c"
    site.identities.withdraw(wait)
    site.settle()
    assert site.asked() == 3, "the masquerade was not asked about"
    again = site.request(b"b", query=b"user_id=@ghost:x")
    site.identities.withdraw(again)
    assert site.identities.statistics().queued == 0


def test_the_line_of_one_client_is_bounded_and_all_lines_leave_room_for_others():
    lookups = Lookups(limit=1, per_address=1)
    lookups.max_queued, lookups.max_queued_per_key = 8, 3
    site = Site()

    def add(number, address):
        return lookups.add(Lookup(b"%d" % number, b"t", site.keys.resolve(f"192.0.2.{address}")))

    assert [add(number, 1) for number in range(4)] == [True, True, True, False]
    assert add(10, 2)
    assert not add(11, 2), "half full: one each"
    assert [add(20 + address, 3 + address) for address in range(5)] == [True, True, True, True, False]
    assert lookups.queued == 8


def test_a_lookup_ends_once_and_only_after_it_was_started():
    site = Site()
    lookups = Lookups(limit=1, per_address=1)
    lookup = Lookup(b"digest", b"token", site.keys.resolve("192.0.2.1"))
    with pytest.raises(ValueError, match="ends once"):
        lookups.finished(lookup)
    assert lookups.add(lookup)
    with pytest.raises(ValueError, match="ends once"):
        lookups.finished(lookup)
    assert lookups.start() == [lookup]
    assert lookups.finished(lookup) == []
    with pytest.raises(ValueError, match="ends once"):
        lookups.finished(lookup)


def test_nothing_is_left_when_all_have_gone():
    site = Site()
    waits = [site.request(b"%d" % number, f"192.0.2.{number % 7}") for number in range(100)]
    for wait in waits[::2]:
        site.identities.withdraw(wait)
    site.settle()
    lookups = site.identities._lookups
    assert [len(books) for books in (lookups._by_digest, lookups._lines, lookups._turns, lookups._waits)] == [
        0
    ] * 4
    assert (lookups.running, lookups.queued, lookups.waiting) == (0, 0, 0)
    assert len(site.resumed) == 50


# The storms that must not be.


@pytest.mark.slow
def test_a_cold_cache_under_three_thousand_addresses_is_sixteen_lookups_at_a_time():
    site = Site()
    for number in range(3000):
        site.homeserver.user(b"token-%d" % number, f"@{number}:x")
    waits = [
        site.request(b"token-%d" % number, f"10.{number // 250}.0.{number % 250}") for number in range(3000)
    ]
    assert all(isinstance(wait, Wait) for wait in waits)
    most = 0
    while site.running:
        most = max(most, len(site.running))
        site.answer()
    assert most == 16
    assert site.asked() == 3000
    assert [wait.principal.account for wait in waits] == [f"@{number}:x" for number in range(3000)]


@pytest.mark.slow
def test_a_restart_under_three_thousand_known_clients_is_no_storm_and_nobody_waits():
    site = Site()
    for number in range(3000):
        site.principal(
            site.homeserver.user(b"token-%d" % number, f"@{number}:x"), f"10.{number // 250}.0.{number % 250}"
        )
    site.asked()
    site.now += 3600
    site.homeserver.failing = 0
    for _ in range(6):  # a minute without an answer; each look-up fails at once
        for number in range(3000):
            principal = site.request(b"token-%d" % number, f"10.{number // 250}.0.{number % 250}")
            assert principal.account == f"@{number}:x"
            assert len(site.running) <= 16
        site.settle()
        site.now += 10
    assert site.asked() == 2 * 3000, "each twice in a minute"
