from proxy.mechanisms.quorum import Quorum


def test_one_party_alone_is_no_quorum_however_often_it_speaks():
    quorum = Quorum()
    assert not any(quorum.note("a") for _ in range(5))


def test_two_different_parties_are_one_until_the_reset():
    quorum = Quorum()
    quorum.note("a")
    assert quorum.note("b")
    assert quorum.note("a")
    quorum.reset()
    assert not quorum.reached
    assert not quorum.note("b")
