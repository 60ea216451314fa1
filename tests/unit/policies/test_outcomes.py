import itertools

import pytest

from proxy.errors import Reason
from proxy.matrix.endpoint import RouteClass
from proxy.policies.outcomes import (
    FAILURES,
    RECOVERIES,
    Outcome,
    is_reported,
    of_answer,
    of_reason,
)


@pytest.mark.parametrize(
    ("status", "elapsed_s", "outcome"),
    [
        (200, 14.9, "fast"),
        (200, 15, "slow"),
        (101, 1, "fast"),
        (302, 1, "fast"),
        (304, 1, "fast"),
        (400, 1, "rejected"),
        (401, 1, "rejected"),
        (404, 29, "rejected"),
        (408, 1, "rejected"),
        (429, 1, "rate_limited"),
        (500, 1, "server_error"),
        (502, 1, "server_error"),
        (503, 29, "server_error"),
        (504, 1, "timeout"),
        (599, 1, "server_error"),
    ],
)
def test_an_answer_is_judged_by_its_status_and_a_success_by_its_time(status, elapsed_s, outcome):
    assert of_answer(status, elapsed_s, 15).name.lower() == outcome


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (Reason.UPSTREAM_UNREACHABLE, "transport_error"),
        (Reason.UPSTREAM_CLOSED, "transport_error"),
        (Reason.CONNECT_TIMEOUT, "transport_error"),
        (Reason.UPSTREAM_TIMEOUT, "timeout"),
        (Reason.UPSTREAM_BROKEN, "rejected"),
        (Reason.UPSTREAM_BUSY, "dropped"),
        (Reason.NO_DESCRIPTORS, "dropped"),
        (Reason.STOPPING, "dropped"),
    ],
)
def test_an_end_without_an_answer_is_judged_by_its_kind(reason, outcome):
    assert of_reason(reason).name.lower() == outcome


def test_what_was_refused_before_it_was_sent_teaches_nothing():
    for reason in Reason:
        if reason.status < 500:
            assert of_reason(reason) is Outcome.DROPPED


def test_each_outcome_is_a_failure_a_recovery_or_nothing():
    assert not FAILURES & RECOVERIES
    assert set(Outcome) - FAILURES - RECOVERIES == {Outcome.DROPPED}


def test_only_failures_of_routes_that_the_homeserver_answers_alone_are_reported():
    reported = {
        (outcome, route)
        for outcome, route in itertools.product(Outcome, RouteClass)
        if is_reported(outcome, route, upload=False)
    }
    silent = {RouteClass.MEDIA, RouteClass.REMOTE, RouteClass.FEDERATION}
    assert reported == set(itertools.product(FAILURES, set(RouteClass) - silent))


def test_an_uploads_timeout_is_not_reported_and_its_other_failures_are():
    reported = {outcome for outcome in Outcome if is_reported(outcome, RouteClass.MEDIA, upload=True)}
    assert reported == FAILURES - {Outcome.TIMEOUT}
