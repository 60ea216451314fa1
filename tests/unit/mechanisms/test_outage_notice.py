from proxy.mechanisms.outage_notice import APART_S, EVERY_S, OutageNotice


def test_an_outage_is_told_at_once_and_then_once_a_minute():
    notice = OutageNotice()
    told = [second for second in range(150) if notice.may_tell(float(second))]
    assert told == [0, EVERY_S, 2 * EVERY_S]


def test_the_next_outage_is_told_at_once():
    notice = OutageNotice()
    assert notice.may_tell(100.0)
    notice.over()
    assert notice.may_tell(100.0 + APART_S)


def test_what_comes_and_goes_is_told_of_once_in_five_seconds():
    notice, told = OutageNotice(), 0
    for tenth in range(100):
        told += notice.may_tell(tenth / 10)
        notice.over()
    assert told == 10 / APART_S
