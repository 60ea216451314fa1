from proxy.policies.body_size import NO_LIMIT, BodySizes


def sizes(upload=None):
    return BodySizes(max_json_bytes=100, max_upload_bytes=upload)


def test_json_has_its_own_limit_whatever_the_homeserver_says():
    limits = sizes()
    limits.learn(50, 0)
    assert limits.limit(is_upload=False) == 100


def test_until_the_homeserver_has_answered_uploads_have_no_limit_of_ours():
    limits = sizes()
    assert limits.limit(is_upload=True) == NO_LIMIT
    assert limits.must_ask(0)
    limits.learn(5000, 1)
    assert limits.limit(is_upload=True) == 5000


def test_one_question_at_a_time_and_an_answer_holds_for_an_hour():
    limits = sizes()
    assert limits.must_ask(0)
    assert not limits.must_ask(1)
    limits.learn(5000, 2)
    assert not limits.must_ask(3601)
    assert limits.must_ask(3602)
    assert limits.limit(is_upload=True) == 5000


def test_after_a_failure_the_old_answer_holds_and_the_next_question_comes_a_minute_later():
    limits = sizes()
    limits.learn(5000, 0)
    assert limits.must_ask(3600)
    limits.failed(3601)
    assert limits.limit(is_upload=True) == 5000
    assert not limits.must_ask(3660)
    assert limits.must_ask(3661)
    assert limits.statistics().failed_total == 1


def test_a_question_whose_asker_was_lost_is_asked_again():
    limits = sizes()
    assert limits.must_ask(0)
    assert limits.must_ask(60)


def test_a_homeserver_that_names_no_limit_has_none():
    limits = sizes()
    limits.learn(None, 0)
    assert limits.limit(is_upload=True) == NO_LIMIT
    assert limits.statistics().upload_bytes is None


def test_the_operators_limit_holds_and_nothing_is_asked():
    limits = sizes(upload=7)
    assert limits.limit(is_upload=True) == 7
    assert not limits.must_ask(0)
    limits.configure(max_json_bytes=200, max_upload_bytes=None)
    assert limits.must_ask(0)
    assert limits.limit(is_upload=False) == 200
