import json

import pytest

from proxy.matrix.pusher_request import key_of, parse_pusher_request, parse_pushers


def body(**fields):
    return json.dumps({"app_id": "app", "pushkey": "key", "kind": "http"} | fields).encode()


def existing(*pairs):
    return frozenset(key_of(*pair) for pair in pairs)


def test_a_registration_names_its_pusher():
    request = parse_pusher_request(body())
    assert (request.app_ids, request.pushkeys, request.registers) == ({"app"}, {"key"}, True)


def test_a_kind_of_null_is_a_deletion():
    assert not parse_pusher_request(body(kind=None)).registers
    assert not parse_pusher_request(b'{"app_id":"a","pushkey":"b"}').registers


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"no json",
        b"[]",
        b'"text"',
        b"null",
        b"{",
        b"{}",
        b'{"app_id":"a","kind":"http"}',
        b'{"pushkey":"a","kind":"http"}',
        b'{"app_id":"a","pushkey":"b","kind":"http"} x',
        b'\xef\xbb\xbf{"app_id":"a","pushkey":"b","kind":"http"}',
        body(data="x" * 65_536),
    ],
)
def test_what_is_no_object_lacks_names_or_is_too_long_is_the_homeservers_to_answer(told):
    assert parse_pusher_request(told) is None


@pytest.mark.parametrize(
    "told",
    [
        b'{"app_id":"app","app_id":"other","pushkey":"key","kind":"http"}',
        b'{"app_id":"other","app_id":"app","pushkey":"key","kind":"http"}',
        b'{"app_id":"app","pushkey":"key","pushkey":"other","kind":"http"}',
        b'{"app_id":"app","APP_ID":"other","pushkey":"key","kind":"http"}',
        '{"app_id":"app","pu\u017fhkey":"other","pushkey":"key","kind":"http"}'.encode(),
        b'{"\\u0061pp_id":"other","app_id":"app","pushkey":"key","kind":"http"}',
        b'{"app_id":5,"pushkey":"key","kind":"http"}',
        b'{"app_id":"app","pushkey":["key"],"kind":"http"}',
        b'{"app_id":"app\xff","pushkey":"key","kind":"http"}',
        b'{"app_id":"x","pushkey":"key","kind":"http","n":' + b"9" * 5000 + b"}",
        b'{"app_id":"x","pushkey":"key","kind":"http","n":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"kind":null,"app_id":"x","pushkey":"key","kind":"http"}',
        b'{"kind":"http","app_id":"x","pushkey":"key","kind":null}',
    ],
)
def test_every_value_of_a_repeated_name_is_judged_and_nothing_hides_the_rest(told):
    request = parse_pusher_request(told)
    assert request.registers
    assert request.may_be_new(existing(("app", "key")))


def test_what_is_there_already_is_not_new():
    request = parse_pusher_request(b'{"app_id":"a","app_id":"b","pushkey":"key","kind":"http"}')
    assert not request.may_be_new(existing(("a", "key"), ("b", "key")))
    assert request.may_be_new(existing(("a", "key"), ("b", "other")))


def test_a_nested_name_is_not_the_requests_own():
    assert parse_pusher_request(body(data={"app_id": "other"})).app_ids == {"app"}


def test_many_repeated_names_cost_no_more_than_their_number():
    names = ",".join(f'"app_id":"{n}","pushkey":"{n}"' for n in range(1000))
    request = parse_pusher_request(f'{{{names},"kind":"http"}}'.encode())
    assert request.may_be_new(existing(*((str(n), str(n)) for n in range(1000))))


def test_the_list_of_pushers_is_read():
    told = json.dumps({"pushers": [{"app_id": "a", "pushkey": "b", "kind": "http"}]}).encode()
    assert parse_pushers(told) == existing(("a", "b"))
    assert parse_pushers(b'{"pushers":[]}') == frozenset()


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"{}",
        b"[]",
        b'{"pushers":null}',
        b'{"pushers":[{}]}',
        b'{"pushers":[{"app_id":1,"pushkey":"b"}]}',
        b'{"pushers":["a"]}',
        b"[" * 70_000,
        b" " * 1_048_577,
    ],
)
def test_an_answer_that_is_no_list_of_pushers_tells_nothing(told):
    assert parse_pushers(told) is None
