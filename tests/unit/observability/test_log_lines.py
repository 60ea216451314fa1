"""Lines to real pipes: one that nobody reads stops nobody, and what is lost is counted and told."""

import contextlib
import fcntl
import os
import subprocess
import sys
import threading

import pytest

from proxy.observability.log_lines import LogLines

PIPE_BYTES = 4096


class Pipe:
    """A pipe that holds a page, and a `LogLines` at its end."""

    def __init__(self, max_characters=8192):
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.told = []
        self.was_told = threading.Event()
        self.lines = LogLines(self.writer, self.tell, max_characters=max_characters)

    def tell(self, lost):
        self.told.append(lost)
        self.lines.write(f"lost {lost}\n")
        self.was_told.set()

    def read_lines(self):
        """All lines until the other end is closed."""
        with open(self.reader, closefd=False) as text:
            return text.read().splitlines()

    def end(self):
        self.lines.close(2)
        os.close(self.writer)


@pytest.fixture
def pipe():
    made = Pipe()
    yield made
    made.lines.close(0)
    for descriptor in (made.reader, made.writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)
    made.lines._thread.join(2)
    assert not made.lines._thread.is_alive()


def line(number):
    return f"{number:0>99}\n"


def test_lines_arrive_whole_and_in_order(pipe):
    for number in range(20):
        pipe.lines.write(line(number))
    pipe.end()
    assert pipe.read_lines() == [line(number).strip() for number in range(20)]
    assert (pipe.lines.lost_total, pipe.told) == (0, [])


def test_a_pipe_that_nobody_reads_stops_nobody_and_what_is_lost_is_told_when_it_goes_on(pipe):
    for number in range(1000):
        pipe.lines.write(line(number))
    lost = pipe.lines.lost_total
    kept = 1000 - lost
    assert 8192 // 100 <= kept <= (8192 + PIPE_BYTES) // 100
    seen = b""
    while b"lost" not in seen:
        seen += os.read(pipe.reader, 65536)
    assert pipe.told == [lost]
    pipe.lines.write("then\n")
    pipe.end()
    told = seen.decode().splitlines() + pipe.read_lines()
    assert told == [*(line(number).strip() for number in range(kept)), f"lost {lost}", "then"]


def test_an_end_does_not_wait_for_a_reader_that_stands_still(pipe):
    for number in range(1000):
        pipe.lines.write(line(number))
    pipe.lines.close(0.05)
    assert pipe.lines._thread.is_alive()
    lost = pipe.lines.lost_total
    pipe.lines.write("late\n")
    assert pipe.lines.lost_total == lost + 1


def test_a_reader_that_is_gone_costs_the_lines_and_nothing_else(pipe):
    os.close(pipe.reader)
    pipe.lines.write("one\n")
    pipe.lines.write("two\n")
    pipe.lines.close(2)
    assert (pipe.lines.lost_total, pipe.told) == (2, [])


def test_a_descriptor_that_somebody_made_non_blocking_is_waited_for(pipe):
    os.set_blocking(pipe.writer, False)
    for number in range(80):
        pipe.lines.write(line(number))
    seen = b""
    while seen.count(b"\n") < 80:
        seen += os.read(pipe.reader, 65536)
    assert pipe.lines.lost_total == 0


def test_on_a_full_disk_lines_are_lost_and_counted():
    descriptor = os.open("/dev/full", os.O_WRONLY)
    lines = LogLines(descriptor, lambda _: None)
    lines.write("one\n")
    lines.close(2)
    os.close(descriptor)
    assert lines.lost_total == 1


def test_a_line_that_broke_off_gets_its_end_before_the_next(tmp_path):
    """A limit of the file's size, of a process of its own, lets a part of a line through."""
    script = """if True:
        import os, resource, sys, threading
        from proxy.observability.log_lines import LogLines
        lines = LogLines(1, print)
        resource.setrlimit(resource.RLIMIT_FSIZE, (7, resource.RLIM_INFINITY))
        lines.write("half a line\\n")
        while not lines.lost_total:
            threading.Event().wait(0.001)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        lines.write("whole\\n")
        lines.close(2)
    """
    with (tmp_path / "log").open("wb") as log:
        subprocess.run([sys.executable, "-c", script], stdout=log, check=True, timeout=10)
    assert (tmp_path / "log").read_text().splitlines()[:2] == ["half a ", "whole"]
