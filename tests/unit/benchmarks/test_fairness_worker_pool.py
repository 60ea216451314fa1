from benchmarks.fairness.worker_pool import Counted, WorkerPool


def asked(pool, started, name):
    pool.ask(lambda: started.append(name))


def test_who_finds_a_free_worker_starts_at_once_and_the_rest_in_the_order_they_came():
    pool, started = WorkerPool(2), []
    for name in "abcd":
        asked(pool, started, name)
    assert started == ["a", "b"]
    pool.give_back()
    assert started == ["a", "b", "c"]
    pool.give_back()
    pool.give_back()
    assert started == ["a", "b", "c", "d"]


def test_never_more_in_service_than_workers_and_the_line_counts_as_at_once():
    pool = WorkerPool(2)
    for _ in range(5):
        pool.ask(lambda: None)
    assert pool.figures() == {"asked": 5, "at_once": 5, "most_busy": 2, "most_at_once": 5}


def test_a_pool_without_a_limit_starts_everyone():
    pool, started = WorkerPool(None), []
    for number in range(100):
        asked(pool, started, number)
    assert started == list(range(100))
    assert pool.figures()["most_busy"] == 100


def test_figures_begin_anew_with_what_is_there_now():
    pool = WorkerPool(1)
    for _ in range(3):
        pool.ask(lambda: None)
    pool.give_back()
    pool.forget_most()
    assert pool.figures() == {"asked": 0, "at_once": 2, "most_busy": 1, "most_at_once": 2}


def test_a_request_that_ends_as_it_starts_leaves_the_worker_to_the_next():
    pool, started = WorkerPool(1), []

    def brief():
        started.append("brief")
        pool.give_back()

    pool.ask(lambda: None)
    pool.ask(brief)
    asked(pool, started, "last")
    pool.give_back()
    assert started == ["brief", "last"]
    assert pool.busy == 1


def test_some_requests_of_a_pool_can_be_counted_apart():
    pool, begun = WorkerPool(2), []
    history = Counted(pool)
    for ask in (history.ask, history.ask, pool.ask, history.ask):
        ask(lambda: begun.append(1))
    assert len(begun) == 2, "they share its workers"
    assert history.figures() == {"asked": 3, "at_once": 3, "most_at_once": 3}
    history.give_back()
    history.forget_most()
    assert history.figures() == {"asked": 0, "at_once": 2, "most_at_once": 2}
    assert pool.figures()["at_once"] == 3
