from proxy.mechanisms.rate_floor import RateFloor

KIB = 1_024
UNCONFIRMED = (16 * KIB, 10)
CONFIRMED = (2 * KIB, 30)


def test_nothing_is_required_during_the_grace():
    floor = RateFloor(*UNCONFIRMED, now=100.0)
    assert not floor.too_slow(110.0)
    assert floor.too_slow(110.1)


def test_after_the_grace_every_second_requires_its_bytes():
    floor = RateFloor(*CONFIRMED, now=100.0)
    floor.count(20 * KIB)
    assert floor.deadline() == 140.0


def test_while_paused_nobody_is_too_slow():
    floor = RateFloor(*UNCONFIRMED, now=0.0)
    floor.pause(5.0)
    assert floor.paused
    assert floor.deadline() == float("inf")
    floor.go_on(1_000.0)
    assert not floor.paused
    assert floor.deadline() == 1_005.0


def test_a_stricter_rate_asks_more_only_from_the_switch_on():
    floor = RateFloor(*CONFIRMED, now=0.0)
    floor.count(100 * 2 * KIB)
    floor.switch(*UNCONFIRMED, now=100.0)
    # 200 KiB moved, 140 required by then, 16 more each second
    assert floor.deadline() == 100.0 + 60 / 16


def test_a_milder_rate_forgives_nothing_and_asks_less_from_the_switch_on():
    floor = RateFloor(*UNCONFIRMED, now=0.0)
    floor.count(180 * KIB)
    floor.switch(*CONFIRMED, now=20.0)
    assert floor.deadline() == 20.0 + (180 - 160) / 2


def test_a_longer_grace_holds_if_nothing_was_required_yet():
    floor = RateFloor(*UNCONFIRMED, now=0.0)
    floor.switch(*CONFIRMED, now=4.0)
    assert floor.deadline() == 30.0


def test_a_shorter_grace_that_is_over_already_requires_from_the_switch_on():
    floor = RateFloor(*CONFIRMED, now=0.0)
    floor.switch(*UNCONFIRMED, now=20.0)
    assert floor.deadline() == 20.0


def test_a_switch_during_a_pause_counts_from_its_beginning():
    floor = RateFloor(*CONFIRMED, now=0.0)
    floor.count(100 * 2 * KIB)
    floor.pause(100.0)
    floor.switch(*UNCONFIRMED, now=500.0)
    floor.go_on(600.0)
    assert floor.deadline() == 600.0 + 60 / 16


def test_a_pause_moves_the_grace_of_a_later_switch_too():
    floor = RateFloor(*UNCONFIRMED, now=0.0)
    floor.pause(5.0)
    floor.go_on(25.0)
    floor.switch(*CONFIRMED, now=26.0)
    assert floor.deadline() == 50.0


def test_a_lead_allows_no_endless_stall():
    floor = RateFloor(*CONFIRMED, now=0.0, max_stall_s=60.0)
    floor.moved(200_000_000, 10.0)
    assert not floor.too_slow(70.0)
    assert floor.too_slow(70.1)
    floor.moved(200_000_001, 70.1)
    assert not floor.too_slow(130.0)


def test_our_own_pauses_are_no_stall():
    floor = RateFloor(*CONFIRMED, now=0.0, max_stall_s=60.0)
    floor.moved(200_000_000, 10.0)
    floor.pause(20.0)
    assert not floor.too_slow(500.0)
    floor.go_on(500.0)
    assert not floor.too_slow(549.9)
    assert floor.too_slow(550.1)
