import asyncio
import errno
import os
from pathlib import Path

import pytest
from spool_support import watched_spool

from proxy.spool import spool_file
from proxy.spool.spool_file import SpoolFile, _read_exactly, _write_all


class Owner:
    """Notes what it is told; does what `then` says when told."""

    def __init__(self, then=lambda: None):
        self.told = []
        self.then = then

    def note(self, what):
        self.told.append(what)
        self.then()

    def file_written(self):
        self.note("written")

    def file_read(self, data):
        self.note(data)

    def file_failed(self, error):
        self.note(error.errno)

    def file_shrunk(self):
        self.note("shrunk")

    def file_closed(self):
        self.note("closed")


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def run(scenario, tmp_path, **kwargs):
    """Run `scenario(spool)` and see that it left no descriptor and no byte."""

    async def whole():
        before = open_descriptors()
        spool = watched_spool(tmp_path, **kwargs)
        await scenario(spool)
        await spool.threads.settled()
        assert open_descriptors() == before
        assert (spool.open_files, spool.disk_bytes) == (0, 0)
        assert list(tmp_path.iterdir()) == []
        spool.threads.close()

    asyncio.run(whole())


def test_what_was_written_is_read_in_order_also_while_it_grows(tmp_path):
    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        file.write([b"ab", bytearray(b"cd")])
        await spool.threads.settled()
        file.read(file.readable(3))
        await spool.threads.settled()
        file.write([memoryview(b"ef")])
        await spool.threads.settled()
        assert file.unread_bytes == 3
        file.read(file.readable(100))
        await spool.threads.settled()
        assert owner.told == ["written", b"abc", "written", b"def"]
        file.close()

    run(scenario, tmp_path)


def test_one_operation_at_a_time(tmp_path):
    async def scenario(spool):
        file = SpoolFile(spool, Owner())
        file.write([b"ab"])
        with pytest.raises(RuntimeError):
            file.write([b"cd"])
        file.close()
        with pytest.raises(RuntimeError):
            file.write([b"cd"])

    run(scenario, tmp_path)


def test_a_close_during_an_operation_waits_for_it_and_tells_nothing_of_it(tmp_path):
    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        file.write([b"ab"])
        await spool.threads.settled()
        file.read(2)
        file.close()
        file.close()
        assert owner.told == ["written"]
        await spool.threads.settled()
        assert owner.told == ["written", "closed"]

    run(scenario, tmp_path)


def test_a_close_during_the_first_write_leaves_nothing(tmp_path):
    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        file.write([bytes(1_000_000)])
        file.close()
        await spool.threads.settled()
        assert owner.told == ["closed"]

    run(scenario, tmp_path)


def test_a_close_from_within_a_callback_is_safe_also_with_a_new_operation_begun(tmp_path):
    async def scenario(spool):
        def then():
            if owner.told == ["written"]:
                file.read(2)
                file.close()

        owner = Owner(then)
        file = SpoolFile(spool, owner)
        file.write([b"ab"])
        await spool.threads.settled()
        assert owner.told == ["written", "closed"]

    run(scenario, tmp_path)


def test_an_owner_that_fails_while_closing_still_gets_its_file_closed(tmp_path):
    async def scenario(spool):
        def then():
            if owner.told == ["written"]:
                file.close()
                raise ZeroDivisionError

        owner = Owner(then)
        file = SpoolFile(spool, owner)
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        file.write([b"ab"])
        await spool.threads.settled()
        assert owner.told == ["written", "closed"]
        assert len(failures) == 1

    run(scenario, tmp_path)


def test_a_file_that_was_never_written_is_closed_at_once(tmp_path):
    async def scenario(spool):
        owner = Owner()
        SpoolFile(spool, owner).close()
        assert owner.told == ["closed"]

    run(scenario, tmp_path)


def test_what_is_read_to_its_end_frees_its_space_while_the_rest_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_file, "SEGMENT_BYTES", 100)

    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        for _ in range(3):
            file.write([bytes(100)])
            await spool.threads.settled()
        assert (spool.open_files, spool.disk_bytes, file.disk_bytes) == (3, 300, 300)
        file.read(file.readable(1_000))
        await spool.threads.settled()
        assert owner.told[3:] == [bytes(100), "shrunk"]
        assert (spool.open_files, spool.disk_bytes, file.disk_bytes) == (2, 200, 200)
        file.close()

    run(scenario, tmp_path)


def test_a_reader_that_keeps_up_uses_the_same_space_again(tmp_path):
    async def scenario(spool):
        file = SpoolFile(spool, Owner())
        for size in (100, 50, 120):
            growth = file.growth(size)
            before = file.disk_bytes
            file.write([bytes(size)])
            await spool.threads.settled()
            assert file.disk_bytes == before + growth
            file.read(file.readable(1_000))
            await spool.threads.settled()
        assert file.disk_bytes == 120
        file.close()

    run(scenario, tmp_path)


def test_skipped_bytes_are_not_read(tmp_path):
    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        file.write([b"abc"])
        await spool.threads.settled()
        file.skip(3)
        assert file.unread_bytes == file.readable(10) == 0
        file.write([b"de"])
        await spool.threads.settled()
        file.read(2)
        await spool.threads.settled()
        assert owner.told[-1] == b"de"
        file.close()

    run(scenario, tmp_path)


def test_a_full_disk_is_told_and_leaves_no_descriptor(tmp_path):
    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        file.write([b"ab"])
        await spool.threads.settled()
        assert owner.told == [errno.ENOSPC]
        assert spool.failures_total == 1
        file.close()

    run(scenario, tmp_path, open_file=lambda: os.open("/dev/full", os.O_RDWR))


def test_a_file_that_cannot_be_opened_is_told(tmp_path):
    def no_descriptor_left():
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        file.write([b"ab"])
        await spool.threads.settled()
        assert owner.told == [errno.EMFILE]
        file.close()

    run(scenario, tmp_path, open_file=no_descriptor_left)


def test_a_read_only_file_is_told(tmp_path):
    async def scenario(spool):
        owner = Owner()
        file = SpoolFile(spool, owner)
        file.write([b"ab"])
        await spool.threads.settled()
        assert owner.told == [errno.EBADF]
        file.close()

    run(scenario, tmp_path, open_file=lambda: os.open("/dev/null", os.O_RDONLY))


def test_a_file_shorter_than_what_was_written_is_an_error(tmp_path):
    with (tmp_path / "short").open("w+b") as file:
        file.write(b"abc")
        file.flush()
        assert _read_exactly(file.fileno(), 2, 1) == b"bc"
        with pytest.raises(OSError, match="shorter"):
            _read_exactly(file.fileno(), 3, 1)


def test_more_pieces_than_the_kernel_takes_are_written_whole(tmp_path):
    with (tmp_path / "pieces").open("w+b") as file:
        assert _write_all(file.fileno(), [b"ab"] * 3_000, 0) == 6_000
        file.seek(0)
        assert file.read() == b"ab" * 3_000
