from proxy.mechanisms.places import Places


def test_a_place_is_charged_to_its_party_until_it_is_freed_once():
    places = Places()
    places.take("r1", "a")
    places.take("r2", "a")
    assert (len(places), places.active, places.of("a")) == (2, 2, 2)
    assert places.free("r1")
    assert not places.free("r1")
    assert (len(places), places.of("a")) == (1, 1)


def test_holding_keeps_the_place_and_its_charge():
    places = Places()
    places.take("r1", "a")
    places.hold("r1", "a")
    places.hold("r1", "a")
    assert (places.active, places.held, places.of("a")) == (0, 1, 1)
    assert places.free("r1")
    assert (len(places), places.of("a")) == (0, 0)


def test_what_had_no_place_gets_one_when_it_is_held():
    places = Places()
    places.hold("poll", "a")
    assert (places.held, places.of("a")) == (1, 1)


def test_the_one_held_longest_is_told():
    places = Places()
    for item in ("r1", "r2", "r3"):
        places.take(item, "a")
    places.hold("r2", "a")
    places.hold("r1", "a")
    assert places.held_longest() == "r2"
    assert list(places.active_items()) == ["r3"]


def test_a_party_without_places_leaves_nothing_behind():
    places = Places()
    for number in range(10):
        places.take(number, f"party {number}")
        places.free(number)
    assert places._of_party == {}
