import json

import pytest

from proxy.policies.rejected_filter import named_pushkeys, without_foreign

NAMED = frozenset({"pk1", "pk2"})


def test_a_notification_names_pushkeys():
    body = {
        "notification": {
            "devices": [{"pushkey": "pk1"}, {"pushkey": "pk2", "app_id": "a"}, {"pushkey": 3}, "x"]
        }
    }
    assert named_pushkeys(json.dumps(body).encode()) == NAMED
    assert named_pushkeys(b'{"notification":{"devices":[]}}') == frozenset()


@pytest.mark.parametrize(
    "body", [b"", b"x", b"[]", b"{}", b'{"notification":[]}', b'{"notification":{"devices":{}}}']
)
def test_what_is_no_notification_names_nothing(body):
    assert named_pushkeys(body) is None


@pytest.mark.parametrize(
    "answer",
    [
        *(
            b'{"rejected":[]}',
            b'{ "rejected" : ["pk2", "pk1"] }',
            b"{}",
            b"[]",
            b"",
            b"oops",
            b'{"rejected":"pk9"}',
            b'{"rejected":null}',
        ),
        b"[" * 100_000,
    ],
)
def test_an_answer_with_nothing_wrong_stays_as_it_is(answer):
    assert without_foreign(answer, NAMED) is None


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (b'{"rejected":["pk1","pk9"]}', ["pk1"]),
        (b'{"rejected":["pk9"]}', []),
        (b'{"rejected":[1,null,["pk1"],{"a":1},"pk2"]}', ["pk2"]),
        (b'{"rejected":["pk9"],"rejected":["pk1"]}', ["pk1"]),
        (b'{"\\u0072ejected":["pk9","pk1"]}', ["pk1"]),
    ],
)
def test_foreign_pushkeys_go(answer, kept):
    assert json.loads(without_foreign(answer, NAMED)) == {"rejected": kept}


def test_other_keys_of_the_answer_stay():
    assert json.loads(without_foreign(b'{"x":{"y":1},"rejected":["pk9"]}', NAMED)) == {
        "x": {"y": 1},
        "rejected": [],
    }
