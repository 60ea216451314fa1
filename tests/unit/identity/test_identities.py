import gc
from hashlib import sha256

import pytest

from proxy.identity.lookups import Wait
from proxy.identity.principal import CONFIRMED, FAILED, REFUSED, Exemptions, Principal
from proxy.identity.settings import IdentitySettings
from tests.fakes.whoami import Site

GHOST = b"user_id=%40_irc_a%3Ax"


@pytest.fixture
def site():
    site = Site()
    site.homeserver.user(b"alice-1", "@alice:x", "PHONE")
    site.homeserver.user(b"bob-1", "@bob:x")
    site.homeserver.appservice(b"irc", "@ircbot:x", {"@_irc_a:x", "@_irc_b:x"})
    return site


# What is asked, and how long it is believed.


def test_a_token_is_asked_about_once_and_known_from_then_on(site):
    wait = site.request(b"alice-1")
    assert isinstance(wait, Wait)
    assert site.answer() == [wait]
    principal = wait.principal
    assert (principal.account, principal.device, principal.flow) == ("@alice:x", "PHONE", "@alice:x")
    assert principal.confirmed
    assert site.request(b"alice-1") is principal
    assert site.asked() == 1


def test_a_hundred_first_requests_with_one_token_make_one_lookup(site):
    waits = [site.request(b"alice-1", f"192.0.2.{number}") for number in range(100)]
    assert len(site.running) == 1
    assert site.answer() == waits, "in the order they came"
    assert {wait.principal.flow for wait in waits} == {"@alice:x"}
    assert [wait.principal.key for wait in waits] == [f"192.0.2.{number}" for number in range(100)]


def test_after_two_minutes_it_is_served_on_and_asked_about_behind_once(site):
    site.principal(b"alice-1")
    site.now += 119
    site.request(b"alice-1")
    assert not site.running
    site.now += 1
    for _ in range(3):
        assert site.request(b"alice-1").flow == "@alice:x"
    assert len(site.running) == 1
    site.answer()
    site.now += 119
    assert site.request(b"alice-1").flow == "@alice:x"
    assert not site.running


def test_after_a_day_without_an_answer_it_is_unknown_again(site):
    site.principal(b"alice-1")
    site.now += 120 + 86_399
    assert isinstance(site.request(b"alice-1"), Principal)
    site.now += 1
    site.homeserver.failing = 503
    site.settle()
    site.now += 60
    assert isinstance(site.request(b"alice-1"), Wait)


def test_a_failed_renewal_serves_on_and_is_tried_again_half_a_minute_later(site):
    site.principal(b"alice-1")
    site.homeserver.failing = 0
    site.now += 120
    site.request(b"alice-1")
    site.settle()
    for _ in range(29):
        site.now += 1
        assert site.request(b"alice-1").flow == "@alice:x"
        assert not site.running
    site.now += 1
    site.request(b"alice-1")
    assert len(site.running) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
def test_a_refused_token_counts_as_its_client_for_ten_seconds_and_brings_the_answer(site, status):
    site.homeserver.failing = status
    principal = site.principal(b"alice-1")
    assert (principal.standing, principal.flow, principal.account) == (REFUSED, "192.0.2.1", None)
    assert principal.refusal.status == status
    assert principal.refusal.answer.startswith(b"HTTP/1.1 %d" % status)
    site.homeserver.failing = None
    site.now += 9.9
    assert site.request(b"alice-1").refusal.status == status
    assert site.request(b"alice-1", "192.0.2.2").flow == "192.0.2.2"
    assert site.asked() == 1
    site.now += 0.1
    assert site.principal(b"alice-1").flow == "@alice:x"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_known_token_that_is_refused_at_its_renewal_is_forgotten(site, status):
    site.principal(b"alice-1")
    site.now += 120
    site.homeserver.failing = status
    assert site.request(b"alice-1").flow == "@alice:x"
    site.settle()
    assert site.request(b"alice-1").standing == REFUSED


@pytest.mark.parametrize("status", [0, 200, 204, 302, 429, 500, 502, 503, 504])
def test_what_is_no_answer_keeps_what_was_known_and_confirms_nothing_new(site, status):
    site.principal(b"alice-1")
    site.now += 120
    site.homeserver.failing = status
    site.request(b"alice-1")
    site.settle()
    assert site.request(b"alice-1").flow == "@alice:x"
    assert site.principal(b"bob-1").standing == FAILED
    assert site.request(b"bob-1").flow == "192.0.2.1"
    assert site.asked() == 3, "not asked again at once"
    site.homeserver.failing = None
    site.now += 2
    assert site.principal(b"bob-1").flow == "@bob:x"


# Tokens of one account.


def test_a_guest_counts_as_its_client(site):
    site.homeserver.user(b"guest", "@17:x", "guest_device", guest=True)
    principal = site.principal(b"guest")
    assert principal.confirmed
    assert principal.guest
    assert (principal.flow, principal.account) == ("192.0.2.1", "@17:x")


def test_rotated_tokens_of_a_device_are_one_flow_and_one_device(site):
    old = site.principal(b"alice-1")
    site.homeserver.user(b"alice-2", "@alice:x", "PHONE")
    new = site.principal(b"alice-2")
    assert (old.flow, old.device) == (new.flow, new.device)
    del site.homeserver.users[b"alice-1"]
    site.identities.drop(b"alice-1")  # what the homeserver's 401 to it makes of it
    assert site.principal(b"alice-1").standing == REFUSED
    assert site.request(b"alice-2").flow == "@alice:x"


def test_after_logout_and_login_with_the_same_device_the_old_token_is_asked_about_again(site):
    site.principal(b"alice-1")
    site.identities.drop(b"alice-1")  # 200 to /logout
    del site.homeserver.users[b"alice-1"]
    site.homeserver.user(b"alice-2", "@alice:x", "PHONE")
    assert site.principal(b"alice-2").device == "PHONE"
    assert site.principal(b"alice-1").standing == REFUSED


def test_an_answer_from_before_the_logout_is_asked_for_again(site):
    wait = site.request(b"alice-1")
    site.identities.drop(b"alice-1")
    assert site.answer() == []
    del site.homeserver.users[b"alice-1"]
    assert site.answer() == [wait]
    assert wait.principal.standing == REFUSED
    assert site.asked() == 2


def test_and_is_believed_for_nobody_where_that_happens_twice_or_nobody_waits(site):
    wait = site.request(b"alice-1")
    for _ in range(2):
        site.identities.drop(b"alice-1")
        site.answer()
    assert wait.principal.standing == FAILED
    wait = site.request(b"alice-1")
    site.identities.withdraw(wait)
    site.identities.drop(b"alice-1")
    site.answer()
    assert not site.running
    assert isinstance(site.request(b"alice-1"), Wait), "nothing was kept"


def test_dropping_what_is_not_known_changes_nothing(site):
    site.identities.drop(b"nobody")
    assert site.principal(b"alice-1").flow == "@alice:x"


# Masquerade.


def test_an_appservice_is_found_out_by_two_lookups_and_its_ghosts_need_no_more(site):
    principal = site.principal(b"irc", query=GHOST)
    assert principal.appservice
    assert (principal.flow, principal.account) == ("appservice @ircbot:x", "@ircbot:x")
    assert not principal.address_capped
    assert site.homeserver.asked == [(b"irc", GHOST), (b"irc", b"")]
    for number in range(1000):
        assert site.request(b"irc", query=b"user_id=@_irc_%d:x" % number) is principal
    assert site.request(b"irc") is principal
    assert len(site.homeserver.asked) == 2


def test_its_renewal_takes_one_lookup_and_it_stays_an_appservice(site):
    site.principal(b"irc", query=GHOST)
    site.asked()
    site.now += 130
    assert site.request(b"irc", query=GHOST).appservice
    site.settle()
    assert site.asked() == 1
    assert site.request(b"irc", query=GHOST).appservice


def test_a_users_token_takes_no_account_by_asking_for_it_and_no_lookup_for_each(site):
    site.homeserver.user(b"mallory-1", "@mallory:x")
    for victim in (b"@alice:x", b"@bob:x", b"@carol:x"):
        principal = site.principal(b"mallory-1", query=b"user_id=" + victim)
        assert principal.flow == "@mallory:x"
        assert not principal.appservice
    assert site.asked() == 2
    assert site.identities.statistics().known == 1


def test_a_known_token_that_masquerades_for_the_first_time_takes_one_more_lookup(site):
    assert site.principal(b"irc").flow == "@ircbot:x", "an account like others, until it shows"
    assert site.principal(b"irc", query=GHOST).flow == "appservice @ircbot:x"
    assert site.homeserver.asked == [(b"irc", b""), (b"irc", GHOST)]


@pytest.mark.parametrize("sender", [b"@ircbot:x", b"%40ircbot%3Ax", b"%40IRCBOT:x"])
def test_who_asks_to_be_who_it_is_tells_nothing_and_is_asked_no_more(site, sender):
    site.homeserver.appservices[b"irc"][1].add("@IRCBOT:x")
    assert site.principal(b"irc").flow == "@ircbot:x"
    assert site.principal(b"irc", query=b"user_id=" + sender).flow == "@ircbot:x"
    assert site.asked() == 1
    assert site.principal(b"irc", query=GHOST).appservice


def test_not_even_where_that_is_its_first_request(site):
    assert site.principal(b"irc", query=b"user_id=@ircbot:x").flow == "@ircbot:x"
    assert site.asked() == 2
    assert site.principal(b"irc", query=GHOST).appservice


def test_a_refused_masquerade_is_refused_alone(site):
    stranger = b"user_id=@stranger:x"
    assert site.principal(b"irc", query=stranger).standing == REFUSED
    assert site.request(b"irc", query=stranger).refusal.status == 403
    assert site.asked() == 1
    assert site.principal(b"irc").flow == "@ircbot:x"
    assert site.request(b"irc", query=stranger).standing == REFUSED
    assert site.principal(b"irc", query=GHOST).appservice
    assert site.request(b"irc", query=stranger).appservice, (
        "the homeserver refuses it; it is the appservice's request"
    )


def test_a_masquerade_that_cannot_be_asked_about_counts_as_the_tokens_account(site):
    site.principal(b"irc")
    site.homeserver.failing = 503
    assert site.principal(b"irc", query=GHOST).flow == "@ircbot:x"
    assert site.request(b"irc", query=GHOST).flow == "@ircbot:x"
    assert site.asked() == 2
    site.homeserver.failing = None
    site.now += 2
    assert site.principal(b"irc", query=GHOST).appservice


def test_requests_with_and_without_masquerade_share_the_lookup_of_their_token(site):
    waits = [site.request(b"irc", query=query) for query in (GHOST, b"", b"user_id=@_irc_b:x", GHOST)]
    assert len(site.running) == 1
    site.settle()
    assert {wait.principal.flow for wait in waits} == {"appservice @ircbot:x"}
    assert site.asked() == 2


def test_who_shares_a_refused_masquerades_lookup_is_asked_about_next(site):
    stranger = site.request(b"irc", query=b"user_id=@stranger:x")
    plain = site.request(b"irc")
    assert site.answer() == [stranger]
    assert site.answer() == [plain]
    assert plain.principal.account == "@ircbot:x"


def test_an_unknown_token_with_a_masquerade_takes_one_lookup(site):
    waits = [site.request(b"garbage", query=GHOST), site.request(b"garbage")]
    site.answer()
    assert [wait.principal.standing for wait in waits] == [REFUSED, REFUSED]
    assert not site.running


def test_the_second_of_two_lookups_failing_confirms_nothing(site):
    wait = site.request(b"irc", query=GHOST)
    site.answer()
    site.homeserver.failing = 502
    site.answer()
    assert wait.principal.standing == FAILED


def test_a_drop_between_the_two_lookups_begins_again(site):
    wait = site.request(b"irc", query=GHOST)
    site.answer()
    site.identities.drop(b"irc")
    site.settle()
    assert wait.principal.appservice
    assert [query for _, query in site.homeserver.asked] == [GHOST, b"", GHOST, b""]


def test_a_device_alone_is_no_masquerade(site):
    assert site.principal(b"alice-1", query=b"device_id=OTHER").device == "PHONE"
    assert site.homeserver.asked == [(b"alice-1", b"")]


# Waiting.


def test_a_request_waits_five_seconds_at_most_and_then_counts_as_its_client(site):
    wait = site.request(b"alice-1", waiter="request")
    site.now += 4.9
    assert site.identities.expired(site.now) == []
    site.now += 0.1
    assert site.identities.expired(site.now) == [wait]
    assert wait.waiter == "request"
    assert (wait.principal.standing, wait.principal.flow) == (FAILED, "192.0.2.1")
    assert site.answer() == []
    assert site.request(b"alice-1").flow == "@alice:x", "what came late is of use to the next"


def test_the_time_of_a_second_lookup_is_not_added(site):
    wait = site.request(b"irc", query=b"user_id=@stranger:x")
    late = site.request(b"irc", query=GHOST)
    site.now += 3
    assert site.answer() == [wait]
    site.now += 2
    assert site.identities.expired(site.now) == [late]


def test_a_request_whose_client_left_is_not_resumed(site):
    wait = site.request(b"alice-1")
    other = site.request(b"alice-1")
    assert site.identities.withdraw(wait)
    assert not site.identities.withdraw(wait)
    assert site.answer() == [other]
    assert not site.identities.withdraw(other)
    assert site.identities.expired(site.now + 60) == []


def test_what_nobody_waits_for_any_more_is_not_asked(site):
    waits = [site.request(b"token-%d" % number) for number in range(5)]
    assert len(site.running) == 2
    for wait in waits[2:4]:
        site.identities.withdraw(wait)
    site.settle()
    assert [token for token, _ in site.homeserver.asked] == [b"token-0", b"token-1", b"token-4"]


def test_where_too_many_wait_a_request_counts_as_its_client_at_once(site):
    for number in range(2 + 512):
        assert isinstance(site.request(b"token-%d" % number), Wait)
    principal = site.request(b"alice-1")
    assert (principal.standing, principal.flow) == (FAILED, "192.0.2.1")
    assert isinstance(site.request(b"bob-1", "192.0.2.2"), Wait)
    assert site.identities.statistics().turned_away_total == 1


# Exemptions and secrets.


def test_an_exempt_account_is_exempt_with_every_token_and_a_change_holds_at_once():
    site = Site(exemptions=Exemptions(accounts=["@mod*:x"]))
    site.homeserver.user(b"mod-1", "@moderator:x")
    site.homeserver.user(b"alice-1", "@alice:x", "PHONE")
    assert site.principal(b"mod-1").exempt
    assert not site.principal(b"alice-1").exempt
    site.identities.reconfigure(IdentitySettings(), Exemptions(devices=["@alice:x/PHONE"]))
    assert not site.request(b"mod-1").exempt
    assert site.request(b"alice-1").exempt


def test_the_settings_can_change_while_it_runs(site):
    site.principal(b"alice-1")
    site.identities.reconfigure(IdentitySettings(lookups=1, timeout_seconds=1, max_entries=1), Exemptions())
    site.request(b"bob-1")
    site.request(b"other", "192.0.2.9")
    assert len(site.running) == 1
    assert site.identities.expired(site.now + 0.9) == []
    assert len(site.identities.expired(site.now + 1)) == 2
    site.settle()
    assert site.identities.statistics().known == 1


def test_no_token_is_kept_and_none_is_shown(site):
    secret = b"syt_c2VjcmV0_" + b"s" * 20 + b"_123456"
    site.homeserver.user(secret, "@alice:x")
    wait = site.request(secret, query=b"user_id=@b:x")
    (lookup,) = site.running
    for shown in (repr(wait), repr(lookup), repr(site.identities.statistics())):
        assert "c2VjcmV0" not in shown
    site.settle()
    site.homeserver.failing = 401
    refused = site.principal(secret + b"2", query=b"user_id=@b:x")
    assert "c2VjcmV0" not in repr(refused)
    kept = everything_in(site.identities)
    assert sha256(secret).digest() in kept, "or nothing was looked at"
    assert not [each for each in kept if isinstance(each, bytes) and b"c2VjcmV0" in each]
    assert not [each for each in kept if isinstance(each, str) and "c2VjcmV0" in each]


def everything_in(owner):
    seen, found, todo = set(), [], [owner]
    while todo:
        each = todo.pop()
        if id(each) not in seen and not isinstance(each, type):
            seen.add(id(each))
            found.append(each)
            todo += gc.get_referents(each)
    return found


def test_the_figures_tell_what_happened(site):
    site.principal(b"alice-1")
    site.principal(b"garbage")
    site.homeserver.failing = 503
    site.principal(b"other")
    figures = site.identities.statistics()
    assert (figures.known, figures.refused) == (1, 2)
    assert (figures.named_total, figures.denied_total, figures.failed_total) == (1, 1, 1)
    assert (figures.running, figures.queued, figures.waiting) == (0, 0, 0)
    assert site.request(b"alice-1").standing == CONFIRMED
