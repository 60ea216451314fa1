from hypothesis import given
from hypothesis import strategies as st

from proxy.policies.first_syncs import LINE, FirstSync, FirstSyncs, Turn


def syncs(*accounts):
    return [FirstSync(account, number) for number, account in enumerate(accounts)]


def test_the_first_of_an_account_begins_and_others_wait_in_order():
    rule = FirstSyncs(60.0)
    first, second, third, other = syncs("@a", "@a", "@a", "@b")
    assert [rule.ask(sync, 0.0) for sync in (first, second, third)] == [Turn.BEGIN, Turn.WAIT, Turn.WAIT]
    assert rule.ask(other, 0.0) == Turn.BEGIN
    assert rule.end(first) is second
    assert rule.end(second) is third
    assert rule.end(third) is None
    assert (rule.live, rule.waiting) == (1, 0)


def test_one_that_leaves_while_it_waits_is_passed_over():
    rule = FirstSyncs(60.0)
    first, second, third = syncs("@a", "@a", "@a")
    for sync in (first, second, third):
        rule.ask(sync, 0.0)
    assert rule.end(second) is None
    assert rule.end(first) is third


def test_ending_twice_frees_nobody_elses_turn():
    rule = FirstSyncs(60.0)
    first, second = syncs("@a", "@a")
    rule.ask(first, 0.0)
    rule.ask(second, 0.0)
    assert rule.end(first) is second
    assert rule.end(first) is None
    assert rule.live == 1


def test_a_wait_ends_in_time_and_one_that_began_does_not():
    rule = FirstSyncs(60.0)
    first, second = syncs("@a", "@a")
    rule.ask(first, 0.0)
    rule.ask(second, 5.0)
    assert rule.expired(64.9) == []
    assert rule.expired(65.0) == [second]
    assert rule.end(first) is None


def test_a_loop_is_refused():
    rule = FirstSyncs(60.0)
    verdicts = [rule.ask(sync, 0.0) for sync in syncs(*["@a"] * (LINE + 3))]
    assert verdicts == [Turn.BEGIN] + [Turn.WAIT] * LINE + [Turn.REFUSE] * 2


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["ask", "end", "time"]), st.integers(0, 30)), max_size=80
    )
)
def test_an_account_never_has_two_turns_and_nothing_is_left_behind(steps):
    rule, now, live, waiting, number = FirstSyncs(20.0), 0.0, {}, [], 0
    for account, what, amount in steps:
        if what == "ask":
            number += 1
            sync = FirstSync(account, number)
            verdict = rule.ask(sync, now)
            assert (verdict == Turn.BEGIN) == (account not in live)
            if verdict == Turn.BEGIN:
                live[account] = sync
            elif verdict == Turn.WAIT:
                waiting.append(sync)
        elif what == "time":
            now += amount
            for sync in rule.expired(now):
                waiting.remove(sync)
        elif account in live:
            following = rule.end(live.pop(account))
            expected = [sync for sync in waiting if sync.account == account]
            assert following is (expected[0] if expected else None)
            if following is not None:
                waiting.remove(following)
                live[account] = following
    assert (rule.live, rule.waiting) == (len(live), len(waiting))
