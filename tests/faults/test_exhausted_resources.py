"""Disk, descriptors and memory used up while Fairgate runs: what can be served is; what was missing is used again."""

import contextlib
import os
import resource
import shutil
import time
from contextlib import ExitStack, closing

import pytest
from e2e_support import wait_for
from faults_support import (
    HOARD,
    Client,
    ask,
    closed,
    cpu_s,
    descriptors_of,
    put,
    request,
    run_through,
    site,
    wait_until_nothing_is_left,
)

SMALL = request(f"{HOARD}?ms=1")
VERSIONS = request("/_matrix/client/versions", token=None)
LARGE = put(600_000)
RECOVERY_S = 1.0


@contextlib.contextmanager
def limited(fairgate, what, value):
    """Lower one of the process's limits for a while."""
    pid = fairgate.child.pid
    soft, hard = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (value, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, what, (soft, hard))


def served(fairgate):
    """A new client is served; until descriptors are free again it may be turned away."""
    began_at = time.monotonic()
    while True:
        with contextlib.suppress(ConnectionError, AssertionError):
            if ask(fairgate, SMALL, "127.0.0.9").status == 200:
                return
        assert time.monotonic() - began_at < RECOVERY_S
        time.sleep(0.02)


def spool(fairgate):
    return fairgate.status()["bodies"]["spool"]


# The disk.


@pytest.fixture
def spooling(tmp_path, monkeypatch):
    """Fairgate with a spool directory of its own, which it may write in only as its mode says, whoever runs the test."""
    if os.geteuid() == 0:
        run_through(monkeypatch, tmp_path, "exec setpriv --bounding-set=-dac_override")
    directory = tmp_path / "spool"
    with site(
        tmp_path, bodies={"spool_directory": str(directory)}, log={"access": "none", "level": "error"}
    ) as pair:
        yield pair[0], directory


def write_fails_and_bodies_stream(fairgate):
    """Large bodies are served while no file can be written, and the status tells."""
    failures = spool(fairgate)["failures_total"]
    for _ in range(3):
        assert ask(fairgate, LARGE).status == 200
        assert ask(fairgate, SMALL).status == 200
    assert spool(fairgate)["failures_total"] > failures
    wait_until_nothing_is_left(fairgate)


def disk_is_used_again(fairgate):
    written = spool(fairgate)["written_bytes_total"]
    assert ask(fairgate, LARGE).status == 200
    assert spool(fairgate)["written_bytes_total"] > written


def test_on_a_full_disk_large_bodies_pass_on_while_they_come(spooling):
    fairgate, _ = spooling
    disk_is_used_again(fairgate)
    with limited(fairgate, resource.RLIMIT_FSIZE, 100_000):
        write_fails_and_bodies_stream(fairgate)
    disk_is_used_again(fairgate)


def test_in_a_read_only_spool_directory_nothing_is_written_and_everybody_served(spooling):
    fairgate, directory = spooling
    directory.chmod(0o500)
    write_fails_and_bodies_stream(fairgate)
    directory.chmod(0o700)
    disk_is_used_again(fairgate)


def test_a_spool_directory_that_is_gone_costs_nobody_an_answer(spooling):
    fairgate, directory = spooling
    shutil.rmtree(directory)
    write_fails_and_bodies_stream(fairgate)
    directory.mkdir()
    disk_is_used_again(fairgate)


def test_answers_for_slow_readers_arrive_whole_although_no_file_can_be_written(spooling):
    fairgate, _ = spooling
    with (
        limited(fairgate, resource.RLIMIT_FSIZE, 100_000),
        closing(Client(fairgate, receive_bytes=4096)) as client,
    ):
        client.send(request("/_matrix/client/v1/media/download/bench/5mib"))
        time.sleep(0.5)
        assert ask(fairgate, SMALL, "127.0.0.2").status == 200
        answer = client.answer()
    assert answer.status == 200
    assert len(answer.body) == 5 << 20


def test_a_log_that_cannot_be_written_costs_nobody_an_answer(tmp_path):
    with site(tmp_path, log={"access": "all"}, bodies={"spool_directory": str(tmp_path)}) as (fairgate, _):
        assert ask(fairgate, LARGE).status == 200
        with limited(fairgate, resource.RLIMIT_FSIZE, 100):
            with closing(Client(fairgate)) as client:
                client.sock.settimeout(2)
                assert client.ask(LARGE).status == 200
            assert ask(fairgate, b"FOO\r\n\r\n").status == 400
        assert ask(fairgate, LARGE).status == 200


# Descriptors.


@pytest.fixture(scope="module")
def small_site(tmp_path_factory):
    with site(tmp_path_factory.mktemp("few")) as pair:
        yield pair[0]


def test_without_descriptors_accepting_does_not_spin_and_who_is_connected_is_served(small_site):
    fairgate, pid = small_site, small_site.child.pid
    with ExitStack() as ends:
        kept = ends.enter_context(closing(Client(fairgate)))
        assert kept.ask(SMALL).status == 200
        with limited(fairgate, resource.RLIMIT_NOFILE, descriptors_of(pid) + 4):
            crowd = [ends.enter_context(closing(fairgate.connect())) for _ in range(100)]
            cpu, began_at = cpu_s(pid), time.monotonic()
            assert kept.ask(SMALL).status == 200
            assert closed(crowd, 1.0) >= 90  # at once, not left in the dark
            time.sleep(max(0.0, began_at + 1.0 - time.monotonic()))
            assert cpu_s(pid) - cpu < 0.25
            for sock in crowd:
                sock.close()
            served(fairgate)  # the four are free again
    assert ask(fairgate, SMALL).status == 200
    wait_until_nothing_is_left(fairgate)


def test_without_descriptors_for_the_homeserver_the_refusal_is_kind(small_site):
    fairgate, pid = small_site, small_site.child.pid
    heard_before = gate_heard(fairgate)
    with ExitStack() as ends:
        asking = [ends.enter_context(closing(Client(fairgate, f"127.0.0.{n + 2}"))) for n in range(8)]
        wait_for(lambda: fairgate.connections() == 8)
        with limited(fairgate, resource.RLIMIT_NOFILE, descriptors_of(pid)):
            for number, client in enumerate(asking):
                fields = "Fairgate-Class: background\r\n" if number % 2 else ""
                client.send(request(f"{HOARD}?ms=50", token=f"tok_u{number}_1", fields=fields))
            answers = [client.answer() for client in asking]
            refused = [answer for answer in answers if answer.status != 200]
            assert {answer.reason_of_kind_refusal() for answer in refused} == {"no_descriptors"}
        # It is no failure of the homeserver's, neither to alerts nor to the gate for background work.
        assert fairgate.status()["upstream"]["pool"]["failing_seconds"] is None
        assert gate_heard(fairgate) == heard_before
        assert [client.ask(SMALL).status for client in asking] == [200] * 8
    wait_until_nothing_is_left(fairgate)


def gate_heard(fairgate):
    """What the gate for background work was told against the homeserver, by background work and by others."""
    gate = fairgate.status()["homeservers"][0]
    failures = ("timeout", "server_error", "rate_limited", "transport_error")
    told = [gate["outcomes_total"][outcome] for outcome in failures]
    return [
        *told,
        gate["cuts_total"],
        gate["outages_total"],
        gate["reports_heard_total"],
        gate["reports_unheard_total"],
    ]


def test_spool_files_never_take_the_descriptors_of_clients(tmp_path, monkeypatch):
    """A few hundred half-sent bodies, each in a file of its own, as anybody without a token can send them."""
    half = put(1_000_000, token=None)[:300_000]
    limit = 512
    run_through(monkeypatch, tmp_path, f"ulimit -n {limit} && exec")
    with site(tmp_path, log={"access": "none"}) as (fairgate, _), ExitStack() as ends:
        assert resource.prlimit(fairgate.child.pid, resource.RLIMIT_NOFILE) == (limit, limit)
        room = fairgate.status()["connections"]["limit"]
        files = limit // 16
        for number in range(room - 4):
            hostile = ends.enter_context(closing(Client(fairgate, f"127.0.1.{number % 100 + 1}")))
            hostile.send(half)
        wait_for(lambda: spool(fairgate)["open_files"] == files)
        assert spool(fairgate)["failures_total"] > 0
        assert fairgate.status()["process"]["open_descriptors"] < limit
        assert ask(fairgate, VERSIONS, "127.0.0.7").status == 200
        ends.close()
        wait_until_nothing_is_left(fairgate)
        assert ask(fairgate, LARGE).status == 200
        assert spool(fairgate)["written_bytes_total"] > files * 262_144


# Memory.


def test_at_the_limit_of_memory_bodies_wait_and_all_are_served(tmp_path):
    memory = 1 << 20
    bodies = {"memory_total_bytes": memory, "memory_bytes": 65_536, "spool_directory": str(tmp_path)}
    with site(tmp_path, log={"access": "none"}, bodies=bodies) as (fairgate, _), ExitStack() as ends:
        senders = [
            ends.enter_context(closing(Client(fairgate, f"127.0.1.{number + 1}"))) for number in range(40)
        ]
        bodies = [put(64_000, token=f"tok_u{number}_1") for number in range(40)]
        for sender, body in zip(senders, bodies, strict=True):
            sender.send(body[:60_000])
        wait_for(lambda: fairgate.status()["bodies"]["requests"]["open"] == 40)
        budget = fairgate.status()["bodies"]["memory"]
        assert budget["taken_bytes"] <= memory
        assert budget["full_total"] > 0
        assert ask(fairgate, SMALL, "127.0.0.7").status == 200
        for sender, body in zip(senders, bodies, strict=True):
            sender.send(body[60_000:])
        assert [sender.answer().status for sender in senders] == [200] * 40
        ends.close()
        wait_until_nothing_is_left(fairgate)


def test_without_any_spool_or_memory_bodies_are_served_one_read_at_a_time(tmp_path):
    bodies = {
        "memory_total_bytes": 1 << 20,
        "memory_bytes": 4096,
        "spool_bytes": 0,
        "spool_directory": str(tmp_path),
    }
    with site(tmp_path, log={"access": "none"}, bodies=bodies, responses={"spool_bytes": 0}) as (fairgate, _):
        with ExitStack() as ends:
            senders = [
                ends.enter_context(closing(Client(fairgate, f"127.0.1.{number + 1}"))) for number in range(24)
            ]
            whole = [put(200_000, token=f"tok_u{number}_1") for number in range(24)]
            for at in range(0, 240_000, 40_000):
                for sender, body in zip(senders, whole, strict=True):
                    sender.send(body[at : at + 40_000])
            assert ask(fairgate, SMALL, "127.0.0.7").status == 200
            assert [sender.answer().status for sender in senders] == [200] * 24
        assert spool(fairgate)["written_bytes_total"] == 0
        wait_until_nothing_is_left(fairgate)
