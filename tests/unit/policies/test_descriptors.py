from hypothesis import given
from hypothesis import strategies as st

from proxy.policies.descriptors import LEAST_CLIENTS, OTHERS, Fit, fit


def test_what_fits_is_left_as_it_is():
    assert fit(1_048_576, clients=20_000, waits=8_000, workers=352) == Fit(
        20_000, 8_000, 10_704 + 2_500, 2_500
    )


def test_where_it_does_not_fit_waits_get_a_third_and_clients_the_rest():
    found = fit(4_096 + OTHERS, clients=20_000, waits=8_000, workers=48)
    assert found == Fit(2_371, 1_066, 96 + 1_332 + 296, 296)


def test_few_waits_are_left_to_those_who_have_few():
    assert fit(1_024, clients=20_000, waits=32, workers=34) == Fit(700, 32, 108 + 87, 87)


def test_a_limit_that_leaves_no_clients_is_too_small():
    assert fit(OTHERS + 2 * 48 + LEAST_CLIENTS - 1, clients=100, waits=8, workers=48) is None


@given(st.integers(0, 100_000), st.integers(1, 50_000), st.integers(1, 20_000), st.integers(1, 500))
def test_what_is_given_never_exceeds_the_limit_nor_what_was_wanted(limit, clients, waits, workers):
    found = fit(limit, clients=clients, waits=waits, workers=workers)
    if found is not None:
        assert found.clients + found.upstream + OTHERS <= limit
        assert 1 <= found.clients <= clients
        assert 1 <= found.waits <= waits
        assert found.upstream >= 2 * workers + found.waits
