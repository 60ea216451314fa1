"""Who gives way, held against a model that looks at everybody."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.http1.crowd import ADMIT, FULL, PER_ADDRESS, Crowd, crowded_from, is_calm

MAX, PER_ADDRESS_CAP = 12, 5
KEYS = st.sampled_from("abcd")


class Guest:
    """As the model sees it: when it began to wait, None while it is served."""

    def __init__(self, number, key, waits_from):
        self.number, self.key, self.waits_from = number, key, waits_from
        self.place = None


class CrowdedRoom(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.crowd = Crowd(MAX, PER_ADDRESS_CAP)
        self.guests = []
        self.clock = 0
        self.had_as_many_from = {}

    def tick(self):
        self.clock += 1
        return self.clock

    def waiting(self, key):
        return [guest for guest in self.guests if guest.key == key and guest.waits_from is not None]

    def note(self, key):
        self.had_as_many_from[key] = self.tick()

    def model_first_to_go(self):
        most = max((len(self.waiting(key)) for key in "abcd"), default=0)
        if not most:
            return None
        keys = [key for key in "abcd" if len(self.waiting(key)) == most]
        key = min(keys, key=self.had_as_many_from.__getitem__)
        return min(self.waiting(key), key=lambda guest: guest.waits_from)

    def pick(self, data, waits):
        return data.draw(st.sampled_from([g for g in self.guests if (g.waits_from is not None) == waits]))

    @rule(key=KEYS)
    def one_comes(self, key):
        count = sum(guest.key == key for guest in self.guests)
        verdict = self.crowd.verdict(key, len(self.guests))
        if count >= PER_ADDRESS_CAP and len(self.guests) >= 9:
            assert verdict is PER_ADDRESS
            return
        if len(self.guests) >= MAX:
            assert verdict is FULL
            victim = self.model_first_to_go()
            assert self.crowd.first_to_go() is victim
            if victim is None:
                return
            self.remove(victim)
        else:
            assert verdict is ADMIT
        guest = Guest(len(self.guests), key, self.tick())
        guest.place = self.crowd.enter(key, guest)
        self.guests.append(guest)
        self.note(key)

    @precondition(lambda self: any(guest.waits_from is not None for guest in self.guests))
    @rule(data=st.data(), twice=st.booleans())
    def one_is_served(self, data, twice):
        guest = self.pick(data, waits=True)
        guest.place.serves()
        if twice:
            guest.place.serves()
        guest.waits_from = None
        self.note(guest.key)

    @precondition(lambda self: any(guest.waits_from is None for guest in self.guests))
    @rule(data=st.data(), twice=st.booleans())
    def one_waits_again(self, data, twice):
        guest = self.pick(data, waits=False)
        guest.place.waits()
        if twice:
            guest.place.waits()
        guest.waits_from = self.tick()
        self.note(guest.key)

    @precondition(lambda self: self.guests)
    @rule(data=st.data())
    def one_leaves(self, data):
        self.remove(data.draw(st.sampled_from(self.guests)))

    def remove(self, guest):
        self.guests.remove(guest)
        guest.place.leave()
        if guest.waits_from is not None:
            self.note(guest.key)

    @invariant()
    def the_model_agrees(self):
        assert self.crowd.first_to_go() is self.model_first_to_go()
        for key in "abcd":
            assert self.crowd.count(key) == sum(guest.key == key for guest in self.guests)

    @invariant()
    def nothing_is_kept_of_who_left(self):
        assert set(self.crowd.groups) == {guest.key for guest in self.guests}


TestCrowdedRoom = CrowdedRoom.TestCase
TestCrowdedRoom.settings = settings(max_examples=60, stateful_step_count=40)


def test_the_last_connection_of_an_address_is_displaced_only_where_nobody_has_two():
    crowd = Crowd(100, 50)
    for number in range(60):
        crowd.enter("hoarder", f"hoarder {number}")
        crowd.enter(f"client {number}", f"client {number}")
    places = []
    for number in range(59):
        assert crowd.first_to_go() == f"hoarder {number}"
        places.append(crowd.groups["hoarder"].first)
        places[-1].leave()
    assert (
        crowd.first_to_go() == "client 0"
    )  # all have one now, and the hoarder's was the last to be its only one


@given(st.integers(1, 100_000))
def test_a_crowd_ends_below_where_it_begins(most):
    assert 0 <= crowded_from(most) < most or most == 1
    assert not is_calm(most, crowded_from(most))


@given(st.integers(1, 12), st.integers(0, 8))
def test_connections_without_a_place_are_refused_only_when_it_is_full(total, capped):
    crowd = Crowd(8, 1)
    for number in range(capped):
        crowd.enter("a", number)
    assert crowd.verdict(None, total) is (FULL if total >= 8 else ADMIT)
