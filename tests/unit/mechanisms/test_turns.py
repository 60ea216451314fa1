from proxy.mechanisms.turns import Turns


def turns_of(text):
    """`a1 b1 a2`: items of parties named by their first letter, in the order of asking."""
    turns = Turns()
    for item in text.split():
        turns.add(item[0], item)
    return turns


def taken(turns):
    return [turns.take() for _ in range(len(turns))]


def test_parties_take_turns_and_each_keeps_its_order():
    assert taken(turns_of("a1 a2 a3 b1 c1 b2")) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_party_with_much_in_line_passes_a_newcomer_at_most_once():
    turns = turns_of("a1 a2 a3 a4")
    assert turns.take() == "a1"
    turns.add("b", "b1")
    assert [turns.take(), turns.take()] == ["a2", "b1"]


def test_a_party_without_room_is_passed_over_and_keeps_its_turn():
    turns = turns_of("a1 b1 c1")
    assert turns.take(lambda item: item != "a1") == "b1"
    assert turns.take() == "a1"


def test_with_room_for_nobody_nothing_is_taken():
    turns = turns_of("a1 b1")
    assert turns.take(lambda _: False) is None
    assert len(turns) == 2


def test_removing_takes_an_item_from_the_middle_once():
    turns = turns_of("a1 a2 a3 b1")
    assert turns.remove("a2")
    assert not turns.remove("a2")
    assert taken(turns) == ["a1", "b1", "a3"]


def test_who_has_nothing_in_line_is_forgotten():
    turns = turns_of("a1 b1")
    turns.remove("a1")
    assert list(turns.parties()) == ["b"]
    assert turns.of("a") == 0
    turns.add("a", "a2")
    assert taken(turns) == ["b1", "a2"]


def test_the_oldest_is_told_across_parties():
    turns = turns_of("a1 b1 a2")
    turns.take()
    assert turns.oldest() == "b1"
    assert list(turns) == ["b1", "a2"]
    taken(turns)
    assert turns.oldest() is None
    assert turns.take() is None
