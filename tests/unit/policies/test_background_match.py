import time

import pytest
from pydantic import ValidationError

from proxy.matrix.endpoint import RouteClass
from proxy.policies.background_match import BackgroundMatch, timeout_s
from proxy.policies.background_settings import (
    BackgroundMatchSettings,
    BackgroundSettings,
    BackgroundTimeoutSettings,
)


def matching(**settings):
    return BackgroundMatch(BackgroundMatchSettings(**settings))


def why(match, *, account=None, user_agent=None, route=RouteClass.REQUESTS, declared=False):
    return match.why(account, user_agent, route, declared=declared)


def test_what_says_so_is_background_and_with_nothing_configured_nothing_else_is():
    match = matching()
    assert not match.configured
    assert why(match, declared=True) == "declared"
    assert why(match, account="@a:b", user_agent=b"axon/1", route=RouteClass.HISTORY) is None


@pytest.mark.parametrize(
    ("glob", "account", "matches"),
    [
        ("@backfill:example.org", "@backfill:example.org", True),
        ("@backfill:example.org", "@backfill:example.org.evil", False),
        ("@backfill:example.org", "x@backfill:example.org", False),
        ("@backfill:example.org", "@backfill:exampleXorg", False),
        ("@bot-*:example.org", "@bot-7:example.org", True),
        ("@bot-*:example.org", "@bot-:example.org", True),
        ("@bot-*:example.org", "@bot:example.org", False),
        ("@bot-?:example.org", "@bot-7:example.org", True),
        ("@bot-?:example.org", "@bot-77:example.org", False),
        ("@Bot:example.org", "@bot:example.org", False),
        ("*", "@anyone:example.org", True),
        ("@*:*.org", "@a:b.c.org", True),
        ("@a[b]:[2001:db8::1]", "@a[b]:[2001:db8::1]", True),
        ("?bot-*", "@bot-7:example.org", True),
        ("@a[b]:*", "@ab:x", False),
    ],
)
def test_accounts_are_globs_over_the_whole_name(glob, account, matches):
    assert (why(matching(accounts=(glob,)), account=account) == "accounts") is matches


def test_an_unconfirmed_request_matches_no_accounts_rule():
    assert why(matching(accounts=("*",)), account=None) is None


@pytest.mark.parametrize(
    ("glob", "agent", "matches"),
    [
        ("axon/*", b"axon/1.2 (linux)", True),
        ("axon/*", b"Axon/1.2", True),
        ("*backfill*", b"mybot backfill/3", True),
        ("axon", b"axon/1.2", False),
        ("m\xfcller*", b"m\xc3\xbcller/1", True),
        ("a*b*c", b"a--b--c", True),
        ("a*b*c", b"a--c--b", False),
    ],
)
def test_user_agents_are_globs_without_regard_to_case(glob, agent, matches):
    assert (why(matching(user_agents=(glob,)), user_agent=agent) == "user_agents") is matches


def test_several_patterns_are_alternatives():
    match = matching(accounts=("@a:x", "@b:x"), user_agents=("one/*", "two/*"))
    assert [why(match, account=f"@{name}:x") for name in "abc"] == ["accounts", "accounts", None]
    assert why(match, user_agent=b"two/2") == "user_agents"


def test_route_classes_are_background_as_a_whole():
    match = matching(classes=("history", "first_sync"))
    background = [route for route in RouteClass if why(match, route=route)]
    assert background == [RouteClass.HISTORY, RouteClass.FIRST_SYNC]


def test_all_route_classes_but_vital_and_federation_can_be_named():
    for route in RouteClass:
        if route in (RouteClass.VITAL, RouteClass.FEDERATION):
            with pytest.raises(ValidationError):
                matching(classes=(route.name.lower(),))
        else:
            assert why(matching(classes=(route.name.lower(),)), route=route) == "classes"


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [("accounts", ""), ("accounts", "backfill"), ("accounts", "@a b:x"), ("user_agents", "")],
)
def test_a_pattern_that_can_match_nothing_is_a_mistake(rule, pattern):
    with pytest.raises(ValidationError):
        matching(**{rule: (pattern,)})


def test_a_long_user_agent_costs_its_length_and_no_power_of_it():
    match = matching(user_agents=("*a*a*a*a*a*b",))
    began_at = time.process_time()
    assert why(match, user_agent=b"a" * 60_000) is None
    assert time.process_time() - began_at < 0.1


def test_state_reads_are_due_in_half_the_time_of_the_rest():
    settings = BackgroundTimeoutSettings()
    assert timeout_s(settings, "state") == 15
    assert timeout_s(settings, "messages") == 30


def test_a_start_above_the_maximum_and_a_cooldown_above_its_own_are_mistakes():
    with pytest.raises(ValidationError, match="initial_limit is 2, which is above max_limit, 1"):
        BackgroundSettings(max_limit=1)
    with pytest.raises(ValidationError, match="cooldown_seconds is 60, above cooldown_max_seconds, 30"):
        BackgroundSettings(cooldown_max_seconds=30)


def test_what_is_kept_of_user_agents_is_bounded():
    match = matching(user_agents=("axon/*",))
    for number in range(5000):
        why(match, user_agent=b"browser/%d" % number)
    why(match, user_agent=b"x" * 60_000)
    assert len(match._agents_found) <= 1024
    assert max(map(len, match._agents_found)) < 600
    assert [why(match, user_agent=b"axon/1") for _ in range(2)] == ["user_agents"] * 2
