import pytest

from proxy.mechanisms.attained_service import (
    IDLE_FOR_LONG_S,
    Flow,
    Level,
    Source,
    forget_idle_flows,
    forget_idle_sources,
)


def test_running_time_counts_as_it_passes():
    flow = Flow("a")
    flow.holds = 2
    flow.spent_s = -2 * 10.0  # two workers since 10
    assert flow.figure(13.0) == 6.0


def test_a_period_begins_even_and_counts_what_runs_in_it():
    level, flow = Level(10.0), Flow("a")
    flow.holds, flow.spent_s = 1, -100.0
    level.begin_period(500.0)
    flow.bring_up(level)
    assert flow.figure(503.0) == level.value + 3.0
    assert flow.worker_seconds(503.0) == 403.0


def test_the_level_only_rises():
    level = Level(10.0)
    level.reach(5.0)
    level.reach(3.0)
    assert level.value == 5.0


def test_an_address_is_charged_by_its_accounts_at_most_eight():
    level = Level(1e9)
    level.begin_period(0.0)
    for accounts, divisor in ((0, 1), (1, 1), (3, 3), (40, 8)):
        source = Source("nat", 1)
        for _ in range(accounts):
            source.enter(Flow("account"))
        source.holds = 4
        source.bring_up(level, 0.0)
        assert source.figure(level, 6.0) - level.value == pytest.approx(24.0 / divisor)


def test_more_accounts_do_not_divide_what_was_spent_before():
    level = Level(1e9)
    level.begin_period(0.0)
    source = Source("nat", 1)
    source.holds = 1
    source.bring_up(level, 0.0)
    source.bring_up(level, 8.0)
    for _ in range(8):
        source.enter(Flow("late"))
    assert source.figure(level, 8.0) - level.value == 8.0
    assert source.figure(level, 16.0) - level.value == 9.0


def test_a_lead_is_forgiven_beyond_the_most_that_counts():
    level = Level(10.0)
    level.begin_period(0.0)
    flow, source = Flow("a"), Source("s", 1)
    flow.bring_up(level)
    flow.spent_s = 500.0
    flow.lower_to(level.value + level.max_lead_s, 0.0)
    assert flow.figure(0.0) == level.value + 10.0
    source.holds = 1
    assert source.figure(level, 500.0) == level.value + 10.0


def test_idle_records_are_dropped_but_those_that_had_most_and_not_for_long():
    flows = {name: Flow(name) for name in ("busy", "waits", "small", "great", "old")}
    flows["busy"].holds = flows["waits"].waiting = 1
    now = 2 * IDLE_FOR_LONG_S
    for name, spent in (("small", 1.0), ("great", 9.0), ("old", 99.0)):
        flows[name].spent_s = spent
        flows[name].idle_at = 0.0 if name == "old" else now
    forget_idle_flows(flows, 1, now)
    assert set(flows) == {"busy", "waits", "great"}


def test_idle_addresses_are_dropped_but_those_that_lead_most():
    level = Level(10.0)
    level.begin_period(0.0)
    sources = {name: Source(name, 1) for name in ("busy", "even", "ahead")}
    sources["busy"].holds = 1
    for source in sources.values():
        source.bring_up(level, 0.0)
    sources["ahead"].figure_s += 5.0
    sources["past"] = Source("past", 1)
    forget_idle_sources(sources, 2, level)
    assert set(sources) == {"busy", "ahead", "even"}
    forget_idle_sources(sources, 1, level)
    assert set(sources) == {"busy", "ahead"}
