"""The homeserver as a process that is killed, stopped or slow: who is served, who is told what, and when it is over.

Recovery is by Fairgate alone, within `RECOVERY_S` of the homeserver's own.
"""

import http.client
import time
from contextlib import ExitStack, closing

import pytest
from e2e_support import wait_for
from faults_support import (
    HOARD,
    POLL,
    Client,
    ask,
    cpu_s,
    metrics,
    own_descriptors,
    put,
    request,
    site,
    taken,
    wait_until_nothing_is_left,
)

DEADLINE_S = 1.5
RECOVERY_S = 1.0
TOLD_WITHIN_S = 1.0
VERSIONS = request("/_matrix/client/versions", token=None)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    lanes = {"requests": {"deadline_seconds": DEADLINE_S}}
    with site(tmp_path_factory.mktemp("down"), lanes=lanes) as pair:
        yield pair


@pytest.fixture
def fault(running):
    """Give both and a stack for clients; whatever the test does, counts are as before it, and who asks is served."""
    fairgate, homeserver = running
    served(fairgate)
    before = own_descriptors(fairgate)
    with ExitStack() as ends:
        yield fairgate, homeserver, ends
    if homeserver.child is None:
        homeserver.start()
    homeserver.go_on()  # a test that failed may have left it stopped
    wait_until_nothing_is_left(fairgate)
    served(fairgate)
    wait_until_nothing_is_left(fairgate)
    assert own_descriptors(fairgate) <= before


def served(fairgate, within_s=RECOVERY_S):
    """An honest request is served, asked again after each refusal."""
    began_at = time.monotonic()
    while ask(fairgate, request(f"{HOARD}?ms=1", token="tok_honest_1"), "127.0.0.9").status != 200:
        assert time.monotonic() - began_at < within_s
        time.sleep(0.02)


def health(fairgate, path):
    with closing(http.client.HTTPConnection("127.0.0.1", fairgate.metrics_port, timeout=5)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def clients(fairgate, ends, count, address="127.0.0.{}"):
    return [
        ends.enter_context(closing(Client(fairgate, address.format(number + 20)))) for number in range(count)
    ]


def in_service(fairgate, count):
    deadline = time.monotonic() + 5
    while taken(fairgate.status())["pool busy"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_whoever_waits_when_the_homeserver_is_killed_is_told_kindly_at_once(fault):
    fairgate, homeserver, ends = fault
    asking = clients(fairgate, ends, 8)
    for number, client in enumerate(asking):
        client.send(request(f"{HOARD}?ms=60000", token=f"tok_u{number}_1"))
    polling = clients(fairgate, ends, 2, "127.0.1.{}")
    for number, client in enumerate(polling):
        client.send(request(POLL, token=f"tok_u{number}_1"))
    uploading = clients(fairgate, ends, 1, "127.0.2.{}")
    uploading[0].send(put(500_000, ms=60_000))
    in_service(fairgate, 11)
    homeserver.kill()
    killed_at = time.monotonic()
    answers = [client.answer() for client in (*asking, *polling, *uploading)]
    assert time.monotonic() - killed_at < TOLD_WITHIN_S
    assert {answer.status for answer in answers} == {502}
    # A GET on a connection used before is asked again once, since that may have been stale.
    assert {answer.reason_of_kind_refusal() for answer in answers} <= {
        "upstream_closed",
        "upstream_unreachable",
    }


def test_while_it_is_down_refusals_are_kind_and_cheap_and_it_is_used_again_as_soon_as_it_is_back(fault):
    fairgate, homeserver, ends = fault
    homeserver.kill()
    client = clients(fairgate, ends, 1)[0]
    began_at, cpu = time.monotonic(), cpu_s(fairgate.child.pid)
    answers = [client.ask(request(f"{HOARD}?ms=1")) for _ in range(200)]
    answers.append(client.ask(VERSIONS))
    assert time.monotonic() - began_at < 5
    assert cpu_s(fairgate.child.pid) - cpu < 2
    assert {(answer.status, answer.reason_of_kind_refusal()) for answer in answers} == {
        (502, "upstream_unreachable")
    }
    assert fairgate.status()["upstream"]["pool"]["failing_seconds"] > 0
    homeserver.start()
    served(fairgate)
    assert fairgate.status()["upstream"]["pool"]["failing_seconds"] is None


def test_while_it_is_down_whoever_sends_clients_here_goes_on_sending_them(fault):
    fairgate, homeserver, _ = fault
    homeserver.kill()
    wait_for(lambda: health(fairgate, "/readyz") == 503, 5, "/readyz, which believes an answer for a second")
    assert health(fairgate, "/servez") == 200


def test_a_homeserver_that_stands_still_for_a_moment_loses_nobody_anything(fault):
    fairgate, homeserver, ends = fault
    homeserver.stop()
    asking = clients(fairgate, ends, 40)
    for number, client in enumerate(asking):
        client.send(request(f"{HOARD}?ms=1", token=f"tok_u{number}_1"))
    time.sleep(DEADLINE_S / 3)
    homeserver.go_on()
    assert [client.answer().status for client in asking] == [200] * 40


def test_one_that_stands_still_for_longer_leaves_a_kind_answer_by_the_deadline_and_recovers_with_it(fault):
    fairgate, homeserver, ends = fault
    asking = clients(fairgate, ends, 16)
    for client in asking:
        client.ask(request(f"{HOARD}?ms=1"))  # so that whose it is is known
    homeserver.stop()
    stopped_at = time.monotonic()
    for client in asking:
        client.send(request(f"{HOARD}?ms=1"))
    first = [client.answer() for client in asking[:4]]  # an account's quarter of the workers
    assert time.monotonic() - stopped_at < DEADLINE_S + TOLD_WITHIN_S
    assert {(answer.status, answer.reason_of_kind_refusal()) for answer in first} == {
        (504, "upstream_timeout")
    }
    counts = taken(fairgate.status())
    assert counts["requests held"] == 4  # the homeserver may still be at work for them
    assert counts["requests waiting"] == 12
    homeserver.go_on()
    assert [client.answer().status for client in asking[4:]] == [200] * 12


def test_what_takes_too_long_holds_its_worker_until_it_is_done_and_no_longer(fault):
    fairgate, _, ends = fault
    slow = clients(fairgate, ends, 4)
    for number, client in enumerate(slow):
        client.send(request(f"{HOARD}?ms=2500", token=f"tok_u{number}_1"))
    answers = [client.answer() for client in slow]
    assert {(answer.status, answer.reason_of_kind_refusal()) for answer in answers} == {
        (504, "upstream_timeout")
    }
    assert metrics(fairgate)['fairgate_lane_held{lane="requests"}'] == 4
    served(fairgate)  # there are twelve more
    for client in slow:
        client.close()
    wait_until_nothing_is_left(fairgate, 2.5 - DEADLINE_S + RECOVERY_S)


def test_a_homeserver_killed_and_started_again_and_again_under_load_leaves_nothing_behind(fault):
    fairgate, homeserver, ends = fault
    asking = clients(fairgate, ends, 24)
    for round_ in range(6):
        for number, client in enumerate(asking):
            client.send(request(f"{HOARD}?ms={number * 5}", token=f"tok_u{number}_1"))
        if round_ % 2:
            time.sleep(0.03)
        homeserver.kill()
        homeserver.start()
        answers = [client.answer() for client in asking]
        refused = {answer.reason_of_kind_refusal() for answer in answers if answer.status != 200}
        assert refused <= {"upstream_closed", "upstream_unreachable"}
    served(fairgate)
