from proxy.matrix.pusher_request import PusherRequest, key_of
from proxy.policies.pusher_cap import _MAX_KNOWN, MAX_WAIT_S, PusherCap, PusherPermit, PusherVerdict

PASS, LIST, WAIT, REFUSE = PusherVerdict


def registration(number, account="@a", *, registers=True, now=0.0):
    request = PusherRequest(frozenset({"app"}), frozenset({f"key{number}"}), registers)
    return PusherPermit(account, request, number, now)


def there(count):
    return frozenset(key_of("app", f"key{number}") for number in range(count))


def test_the_twentieth_registers_and_the_twenty_first_is_refused():
    cap = PusherCap(20)
    twentieth, another = registration(19), registration(20)
    assert cap.ask(twentieth) is LIST
    assert cap.listed(twentieth, there(19)) is PASS
    cap.end(twentieth, succeeded=True)
    assert cap.ask(another) is LIST
    assert cap.listed(another, there(20)) is REFUSE
    assert cap.end(another, succeeded=False) is None
    assert (cap.totals.passed, cap.totals.refused) == (1, 1)


def test_updates_and_deletions_pass_at_and_above_the_cap():
    cap = PusherCap(20)
    update, deletion = registration(3), registration(3, registers=False)
    cap.ask(update)
    assert cap.listed(update, there(25)) is PASS
    assert cap.ask(deletion) is PASS


def test_two_racing_registrations_take_turns():
    cap = PusherCap(20)
    first, second, third = registration(19), registration(20), registration(21)
    assert [cap.ask(permit) for permit in (first, second, third)] == [LIST, WAIT, WAIT]
    assert cap.listed(first, there(19)) is PASS
    assert cap.end(first, succeeded=True) is second
    assert cap.listed(second, there(20)) is REFUSE
    assert cap.end(second, succeeded=False) is third
    assert cap.end(third, succeeded=False) is None
    assert cap.statistics().in_turn == 0


def test_who_waits_for_a_turn_longer_than_a_line_lasts_is_overdue():
    cap = PusherCap(20)
    first, second, third = registration(1), registration(2, now=1.0), registration(3, now=2.0)
    for permit in (first, second, third):
        cap.ask(permit)
    assert cap.overdue(1.0 + MAX_WAIT_S - 0.1) == []
    assert cap.overdue(1.0 + MAX_WAIT_S) == [second]
    assert cap.overdue(100.0) == [second, third], "who has the turn is with the homeserver"
    cap.end(second, succeeded=False)
    assert cap.overdue(100.0) == [third]


def test_one_that_stops_waiting_leaves_the_turn_where_it_is():
    cap = PusherCap(20)
    first, second, third = registration(1), registration(2), registration(3)
    for permit in (first, second, third):
        cap.ask(permit)
    assert cap.end(second, succeeded=False) is None
    assert cap.end(first, succeeded=False) is third
    assert cap.end(first, succeeded=False) is None
    assert cap.statistics().waiting == 0


def test_other_accounts_are_untouched():
    cap = PusherCap(20)
    assert cap.ask(registration(1)) is LIST
    assert cap.ask(registration(1, "@b")) is LIST


def test_without_a_list_the_last_one_known_holds():
    cap = PusherCap(2)
    first, new, update = registration(1), registration(2), registration(0)
    cap.ask(first)
    cap.listed(first, there(1))
    cap.end(first, succeeded=True)
    cap.ask(new)
    assert cap.listed(new, None) is REFUSE
    cap.end(new, succeeded=False)
    cap.ask(update)
    assert cap.listed(update, None) is PASS


def test_a_deletion_makes_room_in_what_is_known():
    cap = PusherCap(2)
    first, deletion, new = registration(0), registration(1, registers=False), registration(2)
    cap.ask(first)
    cap.listed(first, there(2))
    cap.end(first, succeeded=True)
    cap.ask(deletion)
    cap.end(deletion, succeeded=True)
    cap.ask(new)
    assert cap.listed(new, None) is PASS
    assert cap.totals.unlisted == 0


def test_with_nothing_known_a_registration_passes_and_is_counted():
    cap = PusherCap(2)
    permit = registration(1)
    cap.ask(permit)
    assert cap.listed(permit, None) is PASS
    assert cap.totals.unlisted == 1


def test_what_can_be_read_in_two_ways_teaches_nothing():
    cap = PusherCap(2)
    first = registration(0)
    cap.ask(first)
    cap.listed(first, there(1))
    cap.end(first, succeeded=True)
    twofold = PusherPermit(
        "@a", PusherRequest(frozenset({"x", "y"}), frozenset({"z"}), registers=True), None, 0.0
    )
    cap.ask(twofold)
    cap.end(twofold, succeeded=True)
    assert cap._known["@a"] == there(1)


def test_a_lower_cap_holds_from_the_next_judgement():
    cap = PusherCap(20)
    permit = registration(5)
    cap.ask(permit)
    cap.max_per_user = 3
    assert cap.listed(permit, there(5)) is REFUSE


def test_what_is_remembered_is_bounded():
    cap = PusherCap(20)
    for number in range(_MAX_KNOWN + 10):
        permit = registration(1, f"@{number}")
        cap.ask(permit)
        cap.listed(permit, there(1))
        cap.end(permit, succeeded=True)
    assert cap.statistics().known == _MAX_KNOWN
    assert cap.statistics().in_turn == 0
    huge = registration(1, f"@{_MAX_KNOWN}")
    cap.ask(huge)
    cap.listed(huge, there(1000))
    assert cap.statistics().known == _MAX_KNOWN - 1
