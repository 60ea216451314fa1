from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.mechanisms.delivery_places import DeliveryPlaces, Limits, Place

KEYS = st.sampled_from(["a", "b", "c", "d"])
ADDRESSES = st.sampled_from(["1.1.1.1", "2.2.2.2"])
SMALL = Limits(in_all=8, unproven=6, per_key=4, per_address=6, after_failure=2, max_waiting=6)
WHICH = st.integers(0)


class Placing(RuleBasedStateMachine):
    """Everything that can happen to places, in any order: limits hold, nobody waits who need not, no place is lost."""

    @initialize()
    def begin(self):
        self.places = DeliveryPlaces(SMALL)
        self.held = []
        self.line = []

    def granted(self, places):
        for place in places:
            assert place.granted
            self.line.remove(place)
            self.held.append(place)

    @rule(key=KEYS, address=ADDRESSES)
    def ask(self, key, address):
        place = Place(key, address)
        answer = self.places.ask(place)
        if answer is None:
            assert len(self.line) == SMALL.max_waiting
        elif answer:
            self.held.append(place)
        else:
            self.line.append(place)

    @precondition(lambda self: self.held)
    @rule(which=WHICH)
    def give_back(self, which):
        place = self.held.pop(which % len(self.held))
        self.granted(self.places.give_back(place))
        assert self.places.give_back(place) == []

    @precondition(lambda self: self.line)
    @rule(which=WHICH)
    def withdraw(self, which):
        place = self.line.pop(which % len(self.line))
        self.granted(self.places.withdraw(place))
        assert self.places.withdraw(place) == []

    @rule(key=KEYS, address=ADDRESSES, answered=st.booleans())
    def note(self, key, address, answered):
        self.granted(self.places.note(key, address, answered=answered))

    @invariant()
    def books_agree(self):
        if not hasattr(self, "places"):
            return
        assert self.places.in_use == len(self.held) <= SMALL.in_all
        assert self.places.waiting == len(self.line) <= SMALL.max_waiting
        for key in "abcd":
            assert sum(place.key == key for place in self.held) <= SMALL.per_key
        for address in ("1.1.1.1", "2.2.2.2"):
            assert sum(place.address == address for place in self.held) <= SMALL.per_address
        assert sum(place.unproven for place in self.held) <= SMALL.unproven

    @invariant()
    def the_first_of_every_line_does_not_fit(self):
        if hasattr(self, "places") and not any(
            self.places._fits(line[0]) for line in self.places._lines.values()
        ):
            return
        assert not self.line


Placing.TestCase.settings = settings(max_examples=80, deadline=None)
TestPlacing = Placing.TestCase


def taken(places, key, address="9.9.9.9", most=1000):
    """Take as many as there are at once."""
    got = []
    while len(got) < most:
        place = Place(key, address)
        if not places.ask(place):
            places.withdraw(place)
            return got
        got.append(place)
    return got


def test_one_gateway_holds_64_and_8_after_a_failure():
    places = DeliveryPlaces()
    places.note("a", "1.1.1.1", answered=True)
    held = taken(places, "a", "1.1.1.1")
    assert len(held) == 64
    for place in held:
        places.give_back(place)
    places.note("a", "1.1.1.1", answered=False)
    assert len(taken(places, "a", "1.1.1.1")) == 8


def test_many_names_of_one_address_hold_64_together_and_8_after_a_failure_there():
    places = DeliveryPlaces()
    held = [place for number in range(100) for place in taken(places, f"g{number}", "1.1.1.1", most=1)]
    assert len(held) == 64
    for place in held:
        places.give_back(place)
    places.note("g0", "1.1.1.1", answered=False)
    assert sum(len(taken(places, f"g{number}", "1.1.1.1", most=1)) for number in range(100)) == 8


def test_a_gateway_that_answers_is_not_squeezed_by_a_failing_neighbour_at_its_address():
    places = DeliveryPlaces()
    places.note("good", "1.1.1.1", answered=True)
    places.note("bad", "1.1.1.1", answered=False)
    taken(places, "bad", "1.1.1.1")
    assert len(taken(places, "good", "1.1.1.1")) == 56


def test_greedy_gateways_leave_room_for_a_newcomer():
    places = DeliveryPlaces()
    counts = []
    for number in range(5):
        places.note(f"g{number}", None, answered=True)
        counts.append(len(taken(places, f"g{number}", f"1.1.1.{number}")))
    assert counts == [64, 32, 16, 8, 4]
    assert len(taken(places, "newcomer", "2.2.2.2", most=1)) == 1


def test_new_names_without_end_leave_a_quarter_to_those_that_answer():
    places = DeliveryPlaces()
    for number in range(500):
        taken(places, f"evil{number}", f"2001:db8:{number:x}::/64", most=1)
    assert places.in_use == 96
    places.note("good", "1.1.1.1", answered=True)
    assert len(taken(places, "good", "1.1.1.1")) == 16


def test_a_freed_place_goes_to_the_gateway_with_least_under_way():
    places = DeliveryPlaces(Limits(in_all=4, unproven=4))
    held = taken(places, "a", most=2) + taken(places, "b", most=1) + taken(places, "c", most=1)
    waiting = [Place(key, "9.9.9.9") for key in ("a", "b", "d", "c")]
    assert [places.ask(place) for place in waiting] == [False] * 4

    assert places.give_back(held[0]) == [waiting[2]]


def test_a_place_that_went_to_a_full_address_is_told():
    places = DeliveryPlaces(Limits(per_address=2))
    taken(places, "a", "1.1.1.1", most=1), taken(places, "b", "1.1.1.1", most=1)
    place = Place("c", "2.2.2.2")
    assert places.ask(place)
    assert not places.move(place, "1.1.1.1")
    places.give_back(place)
    assert places.in_use == 2


def test_what_is_remembered_is_bounded():
    places = DeliveryPlaces()
    for number in range(10_000):
        places.note(f"g{number}", f"1.1.{number >> 8}.{number & 255}", answered=False)
    assert len(places._answered) == len(places._failing_addresses) == 4096
