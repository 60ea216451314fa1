import asyncio
import threading

from spool_support import WatchedThreads

from proxy.spool.threads import DiskThreads


def test_results_and_errors_come_back_in_the_loops_thread():
    async def scenario():
        threads, told = WatchedThreads(2), []

        def note(result, error):
            told.append((result, type(error), threading.current_thread() is threading.main_thread()))

        threads.run(lambda: 6 * 7, note)
        threads.run(lambda: 1 // 0, note)
        assert told == [], "nothing comes back inside of the call"
        await threads.settled()
        assert sorted(told, key=str) == [(42, type(None), True), (None, ZeroDivisionError, True)]
        threads.close()

    asyncio.run(scenario())


def test_no_more_threads_run_than_allowed_and_none_before_it_is_needed():
    async def scenario():
        threads, gate, running, most, lock = WatchedThreads(3), threading.Event(), 0, 0, threading.Lock()
        assert not threads._threads

        def operation():
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            gate.wait(5)
            with lock:
                running -= 1

        for _ in range(10):
            threads.run(operation, lambda *_: None)
        assert threads.in_flight == 10
        assert len(threads._threads) == 3
        gate.set()
        await threads.settled()
        assert most <= 3
        threads.close()

    asyncio.run(scenario())


def test_closing_runs_what_was_given_and_ends_the_threads():
    async def scenario():
        threads, done = WatchedThreads(1), []
        for number in range(5):
            threads.run(lambda number=number: number, lambda result, _: done.append(result))
        threads.close()
        threads.close()
        threads.run(lambda: 99, lambda result, _: done.append(result))
        await threads.settled()
        assert done == [0, 1, 2, 3, 4]
        threads._threads[0].join(5)
        assert not threads._threads[0].is_alive()

    asyncio.run(scenario())


def test_a_loop_that_ended_meanwhile_harms_no_thread():
    threads, gate = DiskThreads(1), threading.Event()

    async def scenario():
        threads.run(lambda: gate.wait(5), lambda *_: None)

    asyncio.run(scenario())
    gate.set()
    threads.close()
    threads._threads[0].join(5)
    assert not threads._threads[0].is_alive()
