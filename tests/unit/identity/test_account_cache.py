import pytest

from proxy.identity.account_cache import (
    _REFUSED,
    _REFUSED_PER_KEY,
    IGNORED,
    OBEYED,
    UNASKED,
    AccountCache,
    digest_of,
)
from proxy.identity.whoami import Denied, Named

ALICE = Named("@alice:x", "D", guest=False)
DENIED = Denied(401, b"HTTP/1.1 401 ...")


@pytest.fixture
def cache():
    return AccountCache(fresh_s=120, stale_s=86_400, negative_s=10, max_entries=3)


def test_the_one_renewed_longest_ago_goes_first(cache):
    for token in (b"a", b"b", b"c", b"a", b"d"):
        cache.confirm(token, ALICE, UNASKED, 0.0)
    assert list(cache.entries) == [b"c", b"a", b"d"]
    cache.retry_later(b"c", 1.0)
    cache.confirm(b"e", ALICE, UNASKED, 0.0)
    assert list(cache.entries) == [b"d", b"c", b"e"], "what is used while the homeserver is down stays"


def test_what_was_learned_of_masquerade_outlives_renewals_but_not_another_account(cache):
    cache.confirm(b"a", ALICE, OBEYED, 0.0)
    cache.confirm(b"a", ALICE, UNASKED, 1.0)
    assert cache.find(b"a", 1.0).masquerade == OBEYED
    cache.confirm(b"a", ALICE, IGNORED, 2.0)
    assert cache.find(b"a", 2.0).masquerade == IGNORED
    cache.confirm(b"a", Named("@bob:x", None, guest=False), UNASKED, 3.0)
    assert cache.find(b"a", 3.0).masquerade == UNASKED


def test_a_retry_never_makes_an_entry_last_longer(cache):
    cache.stale_s = 10
    cache.confirm(b"a", ALICE, UNASKED, 0.0)
    cache.retry_later(b"a", 125.0)
    assert cache.find(b"a", 129.9).fresh_until == 130.0
    assert cache.find(b"a", 130.0) is None
    assert not cache.entries


def test_what_is_gone_cannot_be_changed(cache):
    cache.settle(b"a", OBEYED)
    cache.retry_later(b"a", 0.0)
    assert not cache.drop(b"a")
    cache.confirm(b"a", ALICE, UNASKED, 0.0)
    assert cache.drop(b"a")
    assert not cache.entries


def test_refused_tokens_push_out_no_account_and_one_client_has_few(cache):
    cache.confirm(b"a", ALICE, UNASKED, 0.0)
    for number in range(1000):
        cache.refuse(b"%d" % number, "192.0.2.1", DENIED, 0.0)
    assert cache.find(b"a", 0.0) is not None
    assert cache.refused == _REFUSED_PER_KEY
    assert cache.find_refused(b"999", 0.0) is not None
    assert cache.find_refused(b"0", 0.0) is None


def test_all_clients_together_have_a_bounded_number_of_refused_tokens(cache):
    for number in range(_REFUSED + 100):
        cache.refuse(b"%d" % number, f"198.18.{number // 256}.{number % 256}", DENIED, 0.0)
    assert cache.refused == _REFUSED
    assert len(cache._others_by_key) == _REFUSED


def test_refusals_end_and_are_let_go_of(cache):
    for number in range(8):
        cache.refuse(b"%d" % number, f"192.0.2.{number}", DENIED, 0.0)
    assert cache.find_refused(b"0", 9.9) is not None
    assert cache.find_refused(b"0", 10.0) is None
    for number in range(2):
        cache.refuse(b"new-%d" % number, "192.0.2.99", None, 10.0)
    assert cache.refused == 2
    assert set(cache._others_by_key) == {"192.0.2.99"}


def test_a_look_up_that_failed_is_remembered_shortly(cache):
    cache.refuse(b"a", "192.0.2.1", None, 0.0)
    assert cache.find_refused(b"a", 1.9).denied is None
    assert cache.find_refused(b"a", 2.0) is None


def test_a_token_is_either_confirmed_or_refused(cache):
    cache.refuse(b"a", "192.0.2.1", DENIED, 0.0)
    cache.refuse(b"a", "192.0.2.2", DENIED, 0.0)
    assert cache.refused == 1
    cache.confirm(b"a", ALICE, UNASKED, 1.0)
    assert cache.refused == 0
    assert not cache._others_by_key


def test_a_long_answer_is_not_kept(cache):
    cache.refuse(b"a", "192.0.2.1", Denied(403, b"x" * 2049), 0.0)
    assert cache.find_refused(b"a", 0.0).denied == Denied(403, b"")


def test_a_token_and_its_masquerade_cannot_be_mistaken_for_another():
    assert digest_of(b"a", b"b") != digest_of(b"ab")
    assert digest_of(b"a", b"bc") != digest_of(b"ab", b"c")
    assert len(digest_of(b"a")) == 32
