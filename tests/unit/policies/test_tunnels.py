from proxy.policies.tunnels import TunnelPermit, Tunnels, TunnelVerdict

ADMIT, ACCOUNT, ADDRESS, TOTAL = TunnelVerdict


def test_an_account_has_two_tunnels_and_an_address_eight():
    tunnels = Tunnels(2, 8, 100)
    verdicts = [tunnels.ask(TunnelPermit(f"@{n // 3}", "10.0.0.1")) for n in range(12)]
    assert verdicts == [ADMIT, ADMIT, ACCOUNT] * 4
    assert tunnels.ask(TunnelPermit("@new", "10.0.0.1")) is ADDRESS
    assert tunnels.ask(TunnelPermit("@new", "10.0.0.2")) is ADMIT


def test_a_place_comes_free_once_however_often_it_is_given_back():
    tunnels = Tunnels(2, 8, 100)
    permits = [TunnelPermit("@a", "10.0.0.1") for _ in range(3)]
    for permit in permits:
        tunnels.ask(permit)
    tunnels.end(permits[2])  # was refused
    tunnels.end(permits[0])
    tunnels.end(permits[0])
    assert tunnels.statistics().open == 1
    assert tunnels.ask(TunnelPermit("@a", "10.0.0.1")) is ADMIT
    assert tunnels.ask(TunnelPermit("@a", "10.0.0.1")) is ACCOUNT


def test_who_is_exempt_is_bound_by_neither():
    tunnels = Tunnels(2, 8, 100)
    assert [tunnels.ask(TunnelPermit(None, None)) for _ in range(50)] == [ADMIT] * 50


def test_an_appservice_has_no_limit_by_address():
    tunnels = Tunnels(2, 1, 100)
    assert [tunnels.ask(TunnelPermit("@bridge", None)) for _ in range(3)] == [ADMIT, ADMIT, ACCOUNT]


def test_nothing_is_left_of_tunnels_that_closed():
    tunnels = Tunnels(2, 8, 100)
    permits = [TunnelPermit(f"@{n}", f"10.0.0.{n}") for n in range(20)]
    for permit in permits:
        tunnels.ask(permit)
    for permit in permits:
        tunnels.end(permit)
    shown = tunnels.statistics()
    assert (shown.open, shown.accounts, shown.addresses) == (0, 0, 0)
    assert shown.verdicts == (20, 0, 0, 0)


def test_lower_limits_hold_for_the_next_tunnel():
    tunnels = Tunnels(2, 8, 100)
    tunnels.ask(TunnelPermit("@a", "10.0.0.1"))
    tunnels.per_account = 1
    assert tunnels.ask(TunnelPermit("@a", "10.0.0.1")) is ACCOUNT


def test_more_than_all_may_have_are_nobodys_exempt_ones_neither():
    tunnels = Tunnels(2, 8, 3)
    permits = [TunnelPermit(f"@{n}", f"10.0.0.{n}") for n in range(3)]
    assert [tunnels.ask(permit) for permit in permits] == [ADMIT] * 3
    assert tunnels.ask(TunnelPermit("@a", "10.0.0.9")) is TOTAL
    assert tunnels.ask(TunnelPermit(None, None)) is TOTAL
    tunnels.end(permits[0])
    assert tunnels.ask(TunnelPermit(None, None)) is ADMIT


def test_one_that_is_let_be_beyond_its_accounts_limit_counts_in_all():
    tunnels = Tunnels(1, 8, 2)
    first, second = TunnelPermit("@a", "10.0.0.1"), TunnelPermit("@a", "10.0.0.1")
    assert (tunnels.ask(first), tunnels.ask(second)) == (ADMIT, ACCOUNT)
    tunnels.take(second)
    assert tunnels.ask(TunnelPermit("@b", "10.0.0.2")) is TOTAL
    tunnels.end(first)
    tunnels.end(second)
    assert tunnels.statistics().open == 0
