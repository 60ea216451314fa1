import pytest

from proxy.policies.worker_pool import REMEMBERED
from proxy.policies.worker_share import (
    ENDED,
    GRANTED,
    HELD,
    PARKED,
    REFUSED,
    RUNNING,
    WAITING,
    LaneRule,
    PoolRule,
    Ticket,
    WorkerShare,
)


def lane(name="requests", workers=16, *, share=0.25, max_wait_s=30.0, line=1024, guaranteed=0, history=None):
    return LaneRule(name, workers, share, max_wait_s, line, guaranteed, history)


def one_lane(workers=16, **figures):
    return WorkerShare([PoolRule(workers, (lane(workers=workers, **figures),))], now=0.0)


def generic():
    lanes = (lane(), lane("media", 8), lane("federation", 16, guaranteed=4))
    return WorkerShare([PoolRule(16, lanes)], now=0.0)


REQUESTS, MEDIA, FEDERATION = 0, 1, 2


def ticket(flow, address=None, lane=0, **kinds):
    return Ticket(lane, flow, address or f"address of {flow}", None, **{"confirmed": True, **kinds})


def ask(share, flow, times=1, now=0.0, **what):
    """Ask for the same flow several times; give the tickets."""
    tickets = [ticket(flow, **what) for _ in range(times)]
    for each in tickets:
        share.ask(each, now)
    return tickets


def running(tickets):
    return sum(each.state == RUNNING for each in tickets)


def fill(share, workers=16, now=0.0):
    """Take all workers for as many flows."""
    tickets = [ticket(f"filler {i}") for i in range(workers)]
    for each in tickets:
        assert share.ask(each, now) == GRANTED
    return tickets


def test_a_flow_alone_gets_its_share_and_no_more():
    assert running(ask(one_lane(), "alice", 10)) == 4


def test_the_share_is_at_least_one_worker():
    assert running(ask(one_lane(workers=2), "alice", 3)) == 1


def test_four_stuck_flows_leave_two_of_sixteen():
    share = one_lane()
    assert [running(ask(share, flow, 10)) for flow in "abcd"] == [4, 4, 4, 2]
    assert share.statistics(0.0).lanes[0].running == 14


def test_a_first_worker_needs_only_a_free_one():
    share = one_lane()
    fill(share, 15)
    assert running(ask(share, "alice", 2)) == 1


def test_an_address_holds_at_most_seven_eighths_whoever_asks_from_it():
    share = one_lane()
    tickets = [ask(share, f"account {i}", address="nat")[0] for i in range(20)]
    assert running(tickets) == 14
    assert running(ask(share, "elsewhere")) == 1


def test_an_address_holds_at_most_seven_eighths_of_a_smaller_lane():
    share = generic()
    tickets = [ask(share, f"account {i}", address="nat", lane=MEDIA)[0] for i in range(9)]
    assert running(tickets) == 7
    assert running(ask(share, "elsewhere", lane=MEDIA)) == 1


def test_an_address_holds_at_least_one_worker():
    assert running(ask(one_lane(workers=1), "alice")) == 1


def test_what_is_not_capped_by_address_may_hold_all():
    share = one_lane(share=1.0)
    assert (
        running([ask(share, f"ghost {i}", address="bridge", address_capped=False)[0] for i in range(17)])
        == 16
    )


def test_an_exempt_request_has_no_limit_but_the_lanes_size():
    share = one_lane()
    assert running(ask(share, "admin", 17, exempt=True)) == 16


def test_a_lane_is_a_ceiling_in_a_shared_pool():
    share = generic()
    assert running([ask(share, f"account {i}", lane=MEDIA)[0] for i in range(9)]) == 8
    assert running([ask(share, f"other {i}")[0] for i in range(9)]) == 8


def test_holdings_count_over_the_whole_pool():
    share = generic()
    assert running(ask(share, "alice", 4, lane=MEDIA)) == 4
    assert running(ask(share, "alice")) == 0


def test_pools_of_their_own_do_not_touch_each_other():
    share = WorkerShare([PoolRule(4, (lane(workers=4),)), PoolRule(4, (lane("media", 4),))], now=0.0)
    assert running(ask(share, "alice", 2, lane=0)) == 1
    assert running(ask(share, "alice", 2, lane=1)) == 1


def test_who_had_least_is_served_first():
    share = one_lane(workers=2, share=1.0)
    greedy = ask(share, "greedy", 8)
    (other,) = ask(share, "other")
    share.release(other, 0.1)
    light = ask(share, "light", now=1.0)
    assert running(light) == 1
    share.release(light[0], 1.001)
    (light_again,) = ask(share, "light", now=1.001)
    assert light_again.state == RUNNING
    (other_again,) = ask(share, "other", now=1.002)
    assert share.release(light_again, 1.003) == [other_again]
    assert running(greedy) == 1


def test_a_newcomer_goes_before_a_backlog():
    share = one_lane(workers=4)
    crowd = [ask(share, f"greedy {i}", 8)[0] for i in range(8)]
    assert running(crowd) == 4
    share.release(crowd[0], 1.0)
    (newcomer,) = ask(share, "newcomer", now=1.1)
    assert newcomer not in share.release(crowd[1], 1.2), (
        "those who had nothing yet and wait longer come first"
    )
    share.release(crowd[2], 1.3)
    share.release(crowd[3], 1.4)
    eight_had_one = [t for t in crowd[4:] if t.state == RUNNING]
    assert len(eight_had_one) == 4
    assert newcomer in share.release(eight_had_one[0], 1.5), "but nobody is served twice before it"


def test_idling_earns_nothing():
    share = one_lane(workers=1)
    (first,) = ask(share, "a")
    waiting = {flow: ask(share, flow, 40, now=0.0) for flow in "abc"}
    current, now = first, 0.0
    for _ in range(30):
        now += 1.0
        (current,) = share.release(current, now)
    late = ask(share, "idle until now", 40, now=now)
    for _ in range(12):
        now += 1.0
        (current,) = share.release(current, now)
    assert sum(t.state != WAITING for t in late) <= 4, "an even part of what came after, and one turn"
    assert waiting


def test_a_long_past_alone_starves_nobody():
    share = one_lane(workers=1)
    (stuck,) = ask(share, "long", now=0.0)
    ask(share, "long", 30, now=0.0)
    ask(share, "short", 30, now=0.0)
    (current,) = share.release(stuck, 500.0)
    now = 500.0
    served = []
    for _ in range(24):
        now += 1.0
        served.append(current.flow)
        (current,) = share.release(current, now)
    assert 0 < served.index("long") <= 12, "a lead counts ten seconds, not five hundred"


def test_a_period_begins_even_whatever_was_used_while_workers_were_free():
    share = one_lane(workers=2, share=0.5)
    (regular,) = ask(share, "regular", now=0.0)
    share.release(regular, 300.0)  # nobody waited meanwhile
    fillers = fill(share, 2, now=300.0)
    (regular,) = ask(share, "regular", now=300.1)
    (fresh,) = ask(share, "fresh", now=300.2)
    assert share.release(fillers[0], 301.0) == [regular]
    assert share.release(fillers[1], 301.5) == [fresh]


def test_accounts_of_one_address_count_as_at_most_eight():
    share = one_lane(workers=1, share=1.0)
    (first,) = ask(share, "first")
    for i in range(40):
        ask(share, f"account {i}", 20, address="nat", now=0.001 * i)
    ask(share, "alone", 40, now=0.1)
    now, current, served = 0.2, first, []
    for _ in range(90):
        (current,) = share.release(current, now)
        served.append(current.flow)
        now += 1.0
    assert served[30:].count("alone") == pytest.approx(60 / 9, abs=3)


def test_federation_is_served_first_below_its_part():
    share = generic()
    fillers = fill(share)
    (client,) = ask(share, "client", now=1.0)
    peers = [ask(share, f"peer {i}", lane=FEDERATION, confirmed=False, now=2.0)[0] for i in range(5)]
    granted = [share.release(filler, 3.0)[0] for filler in fillers[:6]]
    assert granted == [*peers[:4], client, peers[4]]


def test_a_guarantee_takes_nothing_while_nobody_asks_for_it():
    assert len(fill(generic())) == 16


def test_history_reads_beyond_some_are_passed_over_and_delay_nothing_else():
    share = one_lane(share=0.5, history=2)
    history = ask(share, "alice", 3, history=True)
    assert running(history) == 2
    assert running(ask(share, "alice")) == 1
    assert share.release(history[0], 1.0) == [history[2]]


def test_held_history_reads_count():
    share = one_lane(share=0.5, history=1)
    first, second = ask(share, "alice", 2, history=True)
    assert share.hold(first, 1.0) == ()
    assert second.state == WAITING
    assert share.release(first, 2.0) == [second]


def test_held_workers_count_against_the_lane_up_to_a_quarter():
    share = one_lane(workers=8)
    fillers = fill(share, 8)
    waiting = [ask(share, f"waiting {i}")[0] for i in range(4)]
    assert [len(share.hold(filler, 1.0)) for filler in fillers[:4]] == [0, 0, 1, 1]
    lane_now = share.statistics(1.0).lanes[0]
    assert (lane_now.running, lane_now.held, lane_now.held_beyond_quarter) == (6, 4, 2)
    assert share.release(fillers[0], 2.0) == ()
    assert share.release(fillers[1], 2.0) == ()
    assert share.release(fillers[2], 2.0) == [waiting[2]]


def test_held_workers_always_count_against_their_flow():
    share = one_lane()
    for each in ask(share, "leaver", 4):
        share.hold(each, 1.0)
    assert running(ask(share, "leaver")) == 0


def test_a_full_line_refuses_the_newest_of_the_flow_with_most_waiting():
    share = one_lane(workers=1, line=4)
    ask(share, "runs")
    greedy = ask(share, "greedy", 3)
    ask(share, "other")
    newcomer = ticket("newcomer")
    assert share.ask(newcomer, 1.0) == PARKED
    assert share.displaced is greedy[2]
    assert greedy[2].state == ENDED
    assert share.ask(ticket("greedy"), 1.0) == REFUSED
    assert share.displaced is None


def test_a_flow_with_nothing_waiting_enters_a_line_where_nobody_has_two():
    share = one_lane(workers=1, line=2)
    ask(share, "runs")
    entered = [ask(share, f"single {i}")[0] for i in range(4)]
    assert [each.state for each in entered] == [WAITING] * 4


def test_those_who_waited_too_long_are_taken_out_of_line():
    share = one_lane(workers=1)
    ask(share, "runs")
    early = ask(share, "early", 2, now=1.0)
    (late,) = ask(share, "late", now=5.0)
    assert share.next_deadline() == 31.0
    assert share.expired(30.9) == []
    assert share.expired(31.0) == early
    assert share.next_deadline() == 35.0
    assert late.state == WAITING
    assert share.statistics(31.0).lanes[0].expired_total == 2


def test_lines_can_be_cleared_for_another_share_while_what_runs_ends_here():
    share = generic()
    fillers = fill(share)
    waiting = [ask(share, f"waiting {i}", lane=i % 2)[0] for i in range(4)]
    assert share.clear_lines(1.0) == [waiting[0], waiting[2], waiting[1], waiting[3]]
    assert {each.state for each in waiting} == {ENDED}
    assert share.next_deadline() == float("inf")
    assert [share.release(filler, 2.0) for filler in fillers] == [()] * 16
    assert share.statistics(2.0).active_flows == 0


def test_one_who_leaves_the_line_lets_those_behind_it_from_elsewhere_pass():
    share = one_lane(workers=8, share=0.5)
    held = [ask(share, f"account {i}", address="nat")[0] for i in range(7)]
    assert running(held) == 7
    (at_nat,) = ask(share, "alice", address="nat")
    (at_home,) = ask(share, "alice", address="home")
    assert at_home.state == WAITING
    assert share.withdraw(at_nat, 1.0) == [at_home]


def test_what_is_taken_against_the_rules_counts_all_the_same():
    share = one_lane(workers=2)
    fill(share, 2)
    extra = ticket("extra")
    share.take(extra, 0.0)
    assert extra.state == RUNNING
    (waiting,) = ask(share, "waiting")
    assert share.release(extra, 1.0) == ()
    assert waiting.state == WAITING


def test_a_refused_ticket_may_be_taken():
    share = one_lane(workers=1, line=1)
    ask(share, "a", 2)
    refused = ticket("a")
    assert share.ask(refused, 0.0) == REFUSED
    share.take(refused, 0.0)
    assert refused.state == RUNNING


@pytest.mark.parametrize("act", ["ask", "take", "release", "hold", "withdraw"])
def test_a_ticket_that_ended_can_do_nothing_more(act):
    share = one_lane()
    (ended,) = ask(share, "alice")
    share.release(ended, 1.0)
    with pytest.raises(RuntimeError):
        getattr(share, act)(ended, 2.0)


def test_a_ticket_in_line_cannot_be_released_or_held():
    share = one_lane(workers=1)
    _, waiting = ask(share, "alice", 2)
    for act in (share.release, share.hold):
        with pytest.raises(RuntimeError):
            act(waiting, 1.0)
    assert waiting.state == WAITING


def test_a_held_ticket_cannot_be_held_again():
    share = one_lane()
    (held,) = ask(share, "alice")
    share.hold(held, 1.0)
    assert held.state == HELD
    with pytest.raises(RuntimeError):
        share.hold(held, 1.0)


def test_other_figures_keep_what_runs_and_serve_who_may_run_by_them():
    share = one_lane(workers=2)
    fillers = fill(share, 2)
    waiting = [ask(share, f"waiting {i}")[0] for i in range(3)]
    more = [PoolRule(4, (lane(workers=4),))]
    assert share.reconfigure(more, 1.0) == waiting[:2]
    fewer = [PoolRule(1, (lane(workers=1),))]
    assert share.reconfigure(fewer, 2.0) == ()
    assert [len(share.release(each, 3.0)) for each in [*fillers, *waiting[:2]]] == [0, 0, 0, 1]


def test_other_lanes_need_another_share():
    with pytest.raises(ValueError, match="lanes"):
        one_lane().reconfigure([PoolRule(16, (lane("other"),))], 1.0)


def test_the_hint_grows_with_the_flows_own_backlog_only():
    share = one_lane(workers=1)
    (current,) = ask(share, "light", now=0.0)
    share.release(current, 2.0)
    ask(share, "runs", now=2.0)
    ask(share, "greedy", 20, now=2.0)
    (light,) = ask(share, "light", now=2.0)
    greedy = ticket("greedy")
    share.ask(greedy, 2.0)
    hints = share.retry_after_s(light, 2.0), share.retry_after_s(greedy, 2.0)
    assert 1.0 <= hints[0] < hints[1] <= 60.0


def test_who_left_is_not_remembered_beyond_a_bound():
    share = one_lane()
    now = 0.0
    for i in range(3 * REMEMBERED):
        now += 0.01
        for each in ask(share, f"account {i}", now=now):
            share.release(each, now)
    pool = share._pools[0]
    assert len(pool.flows) <= 2 * REMEMBERED
    assert len(pool.sources) <= 2 * REMEMBERED


def test_the_flow_that_had_most_stays_in_the_list_of_the_greatest():
    share = one_lane()
    (big,) = ask(share, "big")
    share.release(big, 100.0)
    for i in range(2 * REMEMBERED + 10):
        for each in ask(share, f"account {i}", now=101.0):
            share.release(each, 101.001)
    (first, *_) = share.statistics(102.0, 3).top_flows
    assert (first.flow, first.worker_seconds) == ("big", 100.0)


def test_statistics_tell_who_has_what():
    share = one_lane(workers=4, share=0.5)
    a, b, *_ = ask(share, "alice", 3, now=0.0)
    ask(share, "alice", address="phone", now=0.0)
    share.hold(b, 1.0)
    (alice,) = share.statistics(2.0).top_flows
    assert (alice.running, alice.held, alice.waiting, alice.addresses) == (1, 1, 2, 2)
    assert alice.worker_seconds == 4.0
    assert share.statistics(2.0).lanes[0].oldest_wait_s == 2.0
    share.release(a, 2.0)
    assert share.statistics(2.0).longest_service_s == 2.0


def test_the_ratio_of_wait_to_promise_is_reported():
    share = one_lane(workers=2)
    fillers = fill(share, 2)
    share.release(fillers[0], 4.0)
    fillers[0] = ask(share, "third", now=4.0)[0]
    (waiting,) = ask(share, "light", now=6.0)
    assert share.release(fillers[1], 8.0) == [waiting]
    assert share.statistics(8.0).lanes[0].worst_wait_ratio == pytest.approx(2.0 / (8.0 * 3))
