import sys

import pytest

from proxy.http1.deadlines import NEVER
from proxy.policies.sync_wait import SyncWait
from proxy.policies.wait_values import WaitPermit, WaitState, WaitVerdict

ADMIT, PARK, SYNC_DEVICE, SYNC_ACCOUNT, SYNC_TOTAL = WaitVerdict


def budgets(workers=32, per_account=4, per_device=2, grace_s=0.0):
    return SyncWait(workers=workers, per_account=per_account, per_device=per_device, grace_s=grace_s)


def wait(account="@a", device="D", address="10.0.0.1", timeout_s=30.0, **more):
    return WaitPermit(account, device, address, timeout_s, None, **more)


def admitted(waits, count, now=0.0, **who):
    permits = [wait(**who) for _ in range(count)]
    assert [waits.ask(permit, now) for permit in permits] == [ADMIT] * count
    return permits


def crowd(waits, count, first=0):
    """As many accounts with one wait each, every one with its own address."""
    return [
        permit
        for n in range(first, first + count)
        for permit in admitted(waits, 1, account=f"@crowd{n}", address=f"10.1.0.{n}")
    ]


def test_a_device_has_two_waits_and_its_account_four():
    waits = budgets()
    admitted(waits, 2, device="one")
    assert waits.ask(wait(device="one"), 0) is SYNC_DEVICE
    admitted(waits, 2, device="two")
    assert waits.ask(wait(device="three"), 0) is SYNC_ACCOUNT
    assert waits.ask(wait(account="@b"), 0) is ADMIT


def test_a_refusal_leaves_no_trace_and_an_end_frees_the_place():
    waits = budgets()
    first, _ = admitted(waits, 2)
    refused = wait()
    assert waits.ask(refused, 0) is SYNC_DEVICE
    assert waits.end(refused, 0) == []
    assert waits.statistics().live == 2
    waits.end(first, 1)
    assert waits.ask(wait(), 1) is ADMIT


def test_a_permit_given_back_twice_frees_one_place():
    waits = budgets()
    first, _ = admitted(waits, 2)
    waits.end(first, 1)
    waits.end(first, 1)
    waits.left(first, 1)
    assert waits.statistics().live == 1


def test_whoever_is_not_confirmed_has_the_accounts_number_by_client_key():
    waits = budgets()
    admitted(waits, 4, account="10.0.0.9", device=None)
    assert waits.ask(wait(account="10.0.0.9", device=None), 0) is SYNC_ACCOUNT


def test_above_three_quarters_only_first_waits_are_admitted():
    waits = budgets()
    crowd(waits, 23)
    admitted(waits, 1)
    assert waits.ask(wait(), 0) is SYNC_TOTAL
    assert waits.ask(wait(account="@new", address="10.0.0.2"), 0) is ADMIT


def test_above_three_quarters_an_address_needs_to_have_under_half():
    waits = budgets()
    for n in range(16):
        admitted(waits, 1, account=f"@same{n}", address="10.0.0.7")
    crowd(waits, 8)
    assert waits.ask(wait(account="@new", address="10.0.0.7"), 0) is SYNC_TOTAL
    assert waits.ask(wait(account="@new", address="10.0.0.8"), 0) is ADMIT
    assert waits.ask(wait(account="@bridge", address=None), 0) is ADMIT


def test_one_address_with_many_accounts_leaves_a_quarter_to_the_others():
    waits = budgets()
    verdicts = [waits.ask(wait(account=f"@same{n}", address="10.0.0.7"), 0) for n in range(100)]
    assert verdicts.count(ADMIT) == 24
    crowd(waits, 8)


def test_one_address_cannot_fill_the_total_with_ghosts_of_many_accounts_either():
    waits = budgets()
    for n in range(100):
        permit = wait(account=f"@same{n}", address="10.0.0.7")
        if waits.ask(permit, 0) is ADMIT:
            waits.left(permit, 0)
    assert waits.statistics().used <= 24
    crowd(waits, 8)


def test_nobody_is_admitted_once_all_are_taken():
    waits = budgets(workers=8)
    crowd(waits, 8)
    assert waits.ask(wait(), 0) is SYNC_TOTAL
    assert waits.ask(wait(exempt=True), 0) is SYNC_TOTAL


def test_an_exemption_lifts_the_budgets_of_account_and_device():
    waits = budgets()
    admitted(waits, 32, exempt=True)


@pytest.mark.parametrize(("workers", "live"), [(1, 1), (2, 2), (3, 3), (4, 4)])
def test_small_pools_can_be_used_to_the_last_wait(workers, live):
    waits = budgets(workers=workers, per_account=1, per_device=1)
    crowd(waits, live)
    assert waits.ask(wait(), 0) is SYNC_TOTAL


def test_a_replacement_parks_until_its_devices_old_wait_is_gone():
    waits = budgets(grace_s=2)
    old, _ = admitted(waits, 2)
    replacement = wait()
    assert waits.ask(replacement, 10) is PARK
    assert waits.next_deadline() == 12
    assert waits.left(old, 10.5) == [replacement]
    assert replacement.state is WaitState.LIVE
    assert replacement.admitted_at == 10.5


def test_the_last_wait_of_a_device_makes_room_for_its_replacement_too():
    waits = budgets(per_account=1, per_device=1, grace_s=2)
    (old,) = admitted(waits, 1)
    replacement = wait()
    assert waits.ask(replacement, 0) is PARK
    assert waits.end(old, 1) == [replacement]
    assert waits.statistics().live == 1


def test_only_one_request_of_a_device_parks_and_only_where_a_place_of_it_can_come_free():
    waits = budgets(grace_s=2)
    admitted(waits, 2, device="one")
    admitted(waits, 2, device="two")
    assert waits.ask(wait(device="one"), 0) is PARK
    assert waits.ask(wait(device="one"), 0) is SYNC_DEVICE
    assert waits.ask(wait(device="two"), 0) is PARK
    assert waits.ask(wait(device="three"), 0) is SYNC_ACCOUNT


def test_parking_ends_in_a_refusal_that_names_the_budget():
    waits = budgets(grace_s=2)
    admitted(waits, 2)
    parked = wait()
    waits.ask(parked, 0)
    assert waits.expired(1.9) == ([], [])
    assert waits.expired(2) == ([parked], [])
    assert parked.verdict is SYNC_DEVICE
    assert waits.next_deadline() == NEVER


def test_parking_ends_in_admission_where_others_made_room_meanwhile():
    waits = budgets(workers=8, grace_s=2)
    others = crowd(waits, 7)
    admitted(waits, 1)
    parked = wait()
    assert waits.ask(parked, 0) is PARK
    for other in others:
        waits.end(other, 1)
    assert waits.expired(2) == ([], [parked])
    assert parked.state is WaitState.LIVE


def test_a_parked_request_whose_client_leaves_is_forgotten():
    waits = budgets(grace_s=2)
    old, _ = admitted(waits, 2)
    parked = wait()
    waits.ask(parked, 0)
    assert waits.left(parked, 1) == []
    assert waits.end(old, 1) == []
    assert waits.statistics().parked == 0
    assert waits.next_deadline() == NEVER


def test_a_wait_whose_client_left_is_a_ghost_until_its_timeout_and_five_seconds_have_passed():
    waits = budgets()
    (permit,) = admitted(waits, 1, now=100)
    waits.left(permit, 110)
    assert (waits.statistics().live, waits.statistics().ghosts) == (0, 1)
    assert waits.next_deadline() == 135
    assert waits.expired(134.9) == ([], [])
    waits.expired(135)
    assert waits.statistics().ghosts == 0
    assert permit.state is WaitState.DONE


def test_a_ghost_ends_with_the_homeservers_answer():
    waits = budgets()
    (permit,) = admitted(waits, 1)
    waits.left(permit, 1)
    waits.end(permit, 2)
    assert waits.statistics().ghosts == 0
    assert waits.next_deadline() == NEVER


def test_a_wait_that_is_late_is_no_ghost():
    waits = budgets()
    (permit,) = admitted(waits, 1)
    waits.left(permit, 36)
    assert waits.statistics().ghosts == 0


def test_a_phone_that_changes_its_network_ten_times_a_minute_is_never_refused():
    waits = budgets(grace_s=2)
    now = 0.0
    permit = wait(address="10.0.0.1")
    for turn in range(100):
        waits.expired(now)
        assert waits.ask(permit, now) is ADMIT
        now += 6
        waits.left(permit, now)
        permit = wait(address=f"10.0.{turn}.1")


def test_a_client_that_fires_abandoned_polls_has_two_account_budgets_at_the_homeserver_and_then_is_refused():
    waits = budgets(grace_s=2)
    verdicts = []
    for _ in range(200):
        permit = wait()
        verdicts.append(waits.ask(permit, 0))
        waits.left(permit, 0)
    assert verdicts.count(ADMIT) == 8
    assert verdicts[-1] is SYNC_ACCOUNT
    assert waits.statistics().used == 4
    assert waits.ask(wait(account="@b"), 0) is ADMIT


def test_ghosts_beyond_a_quarter_count_against_the_total_only():
    waits = budgets()
    for n in range(8):
        for permit in admitted(waits, 2, account=f"@a{n}", address=f"10.2.0.{n}"):
            waits.left(permit, 0)
    assert waits.statistics().ghosts == 16
    assert waits.statistics().used == 8
    admitted(waits, 2, account="@a0", device="one", address="10.2.0.0")
    admitted(waits, 2, account="@a0", device="two", address="10.2.0.0")


def test_smaller_budgets_leave_what_was_admitted_and_larger_ones_admit_who_is_parked():
    waits = budgets(grace_s=2)
    permits = admitted(waits, 2)
    assert waits.reconfigure(workers=8, per_account=1, per_device=1, grace_s=2, now=1) == []
    assert waits.statistics().live == 2
    parked = wait()
    assert waits.ask(parked, 1) is PARK
    assert waits.reconfigure(workers=32, per_account=4, per_device=3, grace_s=2, now=1.5) == [parked]
    for permit in (*permits, parked):
        waits.end(permit, 2)
    assert waits.statistics().used == 0


def test_ghosts_are_counted_anew_when_the_account_budget_changes():
    waits = budgets()
    ghosts = admitted(waits, 2) + admitted(waits, 2, device="two")
    for permit in ghosts:
        waits.left(permit, 0)
    assert waits.statistics().used == 0
    waits.reconfigure(workers=32, per_account=1, per_device=1, grace_s=0, now=0)
    assert waits.statistics().used == 3
    for permit in ghosts:
        waits.end(permit, 1)
    assert waits.statistics().used == 0


def test_in_report_mode_what_would_be_refused_goes_on_in_no_books():
    waits = budgets()
    assert [waits.take(wait(), 0) for _ in range(2)] == [ADMIT, ADMIT]
    extra = wait()
    assert waits.take(extra, 0) is SYNC_DEVICE
    assert waits.statistics().live == 2
    waits.left(extra, 1)
    waits.end(extra, 2)
    assert waits.statistics().live == 2
    assert waits.totals.outside == 1


def test_totals_tell_what_happened():
    waits = budgets(grace_s=2)
    permits = admitted(waits, 2)
    waits.ask(wait(), 0)
    waits.ask(wait(), 0)
    waits.expired(2)
    waits.left(permits[0], 3)
    waits.expired(100)
    totals = waits.totals
    assert totals.verdicts == [2, 0, 2, 0, 0]
    assert (totals.parked, totals.ghosts, totals.ghosts_expired) == (1, 1, 1)


def test_memory_is_bounded_by_what_is_live():
    waits = budgets(workers=8000)
    for n in range(3000):
        permit = wait(account=f"@a{n % 50}", device=f"D{n}", address=f"10.{n % 97}")
        assert waits.ask(permit, n) is ADMIT
        waits.left(permit, n)
        waits.end(permit, n)
    assert len(waits._deadlines) <= 65
    assert not waits._accounts
    assert not waits._addresses
    assert not waits._parked


def test_a_permit_stays_small():
    assert sys.getsizeof(wait()) <= 128
