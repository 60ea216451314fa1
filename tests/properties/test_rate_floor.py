import math

from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.mechanisms.rate_floor import RateFloor

RATES = st.sampled_from([100.0, 2_048.0, 16_384.0, 333.3])
GRACES = st.sampled_from([0.0, 10.0, 30.0])
# What happens, and after how many seconds.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["count", "pause", "go_on", "switch"]),
        st.floats(0, 60),
        st.integers(0, 200_000),
        RATES,
        GRACES,
    ),
    max_size=20,
)
BEGINS = st.floats(0, 1e6)


class Slowly:
    """The requirement added up interval by interval, as a reader of the contract would."""

    def __init__(self, rate, grace):
        self.rate, self.grace = rate, grace
        self.counted_s = 0.0
        self.required = 0.0
        self.moved = 0
        self.paused = False

    def pass_time(self, seconds):
        if self.paused:
            return
        free_s = max(0.0, self.grace - self.counted_s) if not self.required else 0.0
        self.required += self.rate * max(0.0, seconds - free_s)
        self.counted_s += seconds

    def seconds_left(self):
        """How long nothing may be moved from now on; negative if too slow already."""
        free_s = max(0.0, self.grace - self.counted_s) if not self.required else 0.0
        return math.inf if self.paused else free_s + (self.moved - self.required) / self.rate


@given(BEGINS, RATES, GRACES, STEPS)
def test_the_deadline_is_where_the_requirement_added_up_overtakes_what_was_moved(begin, rate, grace, steps):
    floor, model, now = RateFloor(rate, grace, begin), Slowly(rate, grace), begin
    for what, seconds, size, new_rate, new_grace in steps:
        model.pass_time(seconds)
        now += seconds
        if what == "count":
            floor.count(size)
            model.moved += size
        elif what == "switch":
            assume(abs(model.counted_s - model.grace) > 1e-6)  # at the grace's very end a rounding decides
            floor.switch(new_rate, new_grace, now)
            model.rate, model.grace = new_rate, new_grace
        else:
            getattr(floor, what)(now)
            model.paused = what == "pause"
        left_s = model.seconds_left()
        if math.isinf(left_s):
            assert floor.deadline() == math.inf
            assert not floor.too_slow(now + 1e9)
        else:
            assert abs(floor.deadline() - now - left_s) < 0.001
            assert floor.too_slow(now) == (left_s < 0) or abs(left_s) < 0.003
        assert floor.moved_bytes == model.moved


@given(BEGINS, RATES, GRACES, st.lists(st.floats(0, 600), max_size=50))
def test_a_peer_at_exactly_the_rate_is_never_cut_however_its_pieces_fall(begin, rate, grace, waits):
    floor, elapsed = RateFloor(rate, grace, begin), 0.0
    for wait in waits:
        elapsed += wait
        floor.count(max(0, math.ceil(rate * (elapsed - grace))) - floor.moved_bytes)
        assert not floor.too_slow(begin + elapsed)


@given(BEGINS, RATES, GRACES, st.lists(st.tuples(st.floats(0, 20), st.floats(0, 1e5)), max_size=30))
def test_pauses_never_count(begin, rate, grace, stretches):
    paused, plain, now, counted = RateFloor(rate, grace, begin), RateFloor(rate, grace, begin), begin, begin
    for stretch_s, pause_s in stretches:
        now += stretch_s
        counted += stretch_s
        paused.pause(now)
        paused.pause(now + pause_s / 2)  # a second pause within the first changes nothing
        assert not paused.too_slow(now + pause_s)
        now += pause_s
        paused.go_on(now)
        paused.go_on(now + 1)
        assert abs((paused.deadline() - now) - (plain.deadline() - counted)) < 0.001


@given(BEGINS, RATES, GRACES, st.lists(st.tuples(st.floats(0, 100), RATES, GRACES), max_size=20))
def test_no_switch_itself_cuts_a_peer_that_was_fast_enough(begin, rate, grace, switches):
    floor, now = RateFloor(rate, grace, begin), begin
    for wait_s, new_rate, new_grace in switches:
        now += wait_s
        missing_s = now - floor.deadline()
        if missing_s > 0:
            floor.count(math.ceil(missing_s * 16_384))
        floor.switch(new_rate, new_grace, now)
        assert not floor.too_slow(now)


@given(BEGINS, RATES, st.integers(1, 1_000_000))
def test_who_sends_nothing_more_is_found_at_the_deadline_and_not_before(begin, rate, size):
    floor = RateFloor(rate, 10.0, begin)
    floor.count(size)
    end = floor.deadline()
    assert not floor.too_slow(end)
    assert floor.too_slow(end + 0.01)
