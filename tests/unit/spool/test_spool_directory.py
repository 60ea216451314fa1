import asyncio
import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from spool_support import watched_spool

from proxy.spool.body_store import BodyStore
from proxy.spool.settings import BodiesSettings, ResponsesSettings, spool_directory
from proxy.spool.spool import Spool, SpoolDirectoryError, file_system
from proxy.spool.spool_file import SpoolFile
from proxy.spool.stores import BodyStores, disk_budget, memory_budget

ROOT = Path(__file__).resolve().parents[3]

#: Writes into spool files, by O_TMPFILE or without, until it is killed.
WRITES_ON = """
    import asyncio, os, sys
    from pathlib import Path
    from proxy.mechanisms.byte_budget import ByteBudget
    from proxy.spool.body_store import BodyStore
    from proxy.spool.spool import Spool
    from proxy.spool.stores import BodyStores

    async def main():
        if sys.argv[2] == "named":
            os.O_TMPFILE = 0  # as where the file system knows no files without a name
        spool = Spool(Path(sys.argv[1]))
        stores = BodyStores(spool, memory=ByteBudget(1 << 28), disk=ByteBudget(1 << 30), memory_bytes=65536)
        bodies = [BodyStore(stores, "flow", "address", confirmed=True) for _ in range(3)]
        while True:
            for body in bodies:
                if spool.disk_bytes < 8_000_000:
                    body.append(bytes(300_000))
            if spool.open_files == 3 and not spool.threads.in_flight:  # a file loses its name while it is opened
                print("open", len(os.listdir(sys.argv[1])), flush=True)
            await asyncio.sleep(0.001)

    asyncio.run(main())
"""


def run(program, *args, **kwargs):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        **kwargs,
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_a_process_that_is_killed_leaves_no_file_behind(tmp_path, how):
    with run(WRITES_ON, tmp_path, how) as process:
        assert process.stdout.readline() == "open 0\n", "no name is there even while files are open"
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert list(tmp_path.iterdir()) == []


#: Writes more than the process may, and tells what became of the body.
FILLS_UP = """
    import asyncio, resource, sys
    from pathlib import Path
    from proxy.mechanisms.byte_budget import ByteBudget
    from proxy.spool.body_store import BUDGET, BodyStore
    from proxy.spool.spool import Spool
    from proxy.spool.stores import BodyStores

    async def main():
        spool = Spool(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        stores = BodyStores(spool, memory=ByteBudget(1 << 28), disk=ByteBudget(1 << 30), memory_bytes=65536)
        body, sent, told = BodyStore(stores, "flow", "address", confirmed=True), b"", []
        body.on_budget = lambda: told.append("budget")
        while not told:
            data = bytes([len(sent) % 251]) * 200_000
            sent += data
            if body.append(data) is BUDGET:
                told.append("budget")
            while spool.threads.in_flight:
                await asyncio.sleep(0.001)
        body.finish()
        got = b""
        while not body.at_end:
            got += body.take_next(65536)
            await asyncio.sleep(0)
        print(told, got == sent, len(sent) > 1_000_000, spool.failures_total)

    asyncio.run(main())
"""


@pytest.mark.slow
def test_on_a_full_disk_a_body_is_streamed_and_whole(tmp_path):
    with run(FILLS_UP, tmp_path) as process:
        assert process.communicate(timeout=20)[0].splitlines()[-1] == "['budget'] True True 1"


def test_a_directory_that_cannot_be_made_is_refused_in_words(tmp_path):
    with pytest.raises(SpoolDirectoryError, match=r"in .*/no/such: No such file or directory"):
        Spool(tmp_path / "no" / "such")


def test_a_file_in_the_directorys_place_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolDirectoryError, match="Not a directory"):
        Spool(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_the_right_to_write_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SpoolDirectoryError, match="Permission denied"):
        Spool(tmp_path)


def test_a_directory_nobody_can_write_to_is_refused():
    with pytest.raises(SpoolDirectoryError):
        Spool(Path("/proc"))


def test_the_last_part_of_the_path_is_made_for_this_process_alone(tmp_path):
    Spool(tmp_path / "spool")
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_a_dead_process_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "fairgate-spool-abc123").write_bytes(b"left")
    (tmp_path / "other").write_bytes(b"kept")
    Spool(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_files_lose_their_name_at_once_where_they_must_have_one(tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    really_open = os.open

    def no_tmpfile(path, flags, mode=0o777, **kwargs):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return really_open(path, flags, mode, **kwargs)

    monkeypatch.setattr(os, "open", no_tmpfile)
    descriptor = spool.open_file()
    assert list(tmp_path.iterdir()) == []
    assert os.write(descriptor, b"works") == 5
    os.close(descriptor)


def test_failures_are_counted_and_warned_of_once_a_minute(tmp_path, capsys):
    spool = Spool(tmp_path)
    capsys.readouterr()
    for _ in range(3):
        spool.note_failure(OSError(errno.ENOSPC, "No space left on device"))
    assert spool.statistics().failures_total == 3
    assert capsys.readouterr().out.count("No space left on device") == 1


def test_the_file_system_of_a_directory_is_told(tmp_path):
    assert file_system(Path("/proc/self")) == "proc"
    assert file_system(tmp_path)


def test_the_spool_is_where_it_is_set_else_below_the_state_else_in_the_systems_place(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert spool_directory("/var/spool/x", "/var/lib/fairgate") == Path("/var/spool/x")
    assert spool_directory(None, "/var/lib/fairgate") == Path("/var/lib/fairgate/spool")
    assert spool_directory(None, None) == tmp_path


def test_defaults_are_those_of_the_contract():
    bodies, responses = BodiesSettings(), ResponsesSettings()
    assert (bodies.memory_bytes, responses.memory_bytes) == (65_536, 262_144)
    assert bodies.memory_total_bytes == 256 * 1_048_576
    assert bodies.spool_bytes == responses.spool_bytes == 1_073_741_824
    assert (bodies.max_json_bytes, bodies.confirm_above_bytes) == (13_107_200, 1_048_576)
    assert bodies.rate.unconfirmed.model_dump() == {"bytes_per_second": 16_384, "grace_seconds": 10}
    assert bodies.rate.confirmed.model_dump() == {"bytes_per_second": 2_048, "grace_seconds": 30}


def test_statistics_tell_what_is_open_and_on_disk(tmp_path):
    class Owner:
        def file_written(self):
            pass

        def file_closed(self):
            pass

    async def scenario():
        spool = watched_spool(tmp_path)
        file = SpoolFile(spool, Owner())
        file.write([b"12345"])
        assert spool.statistics().operations_in_flight == 1
        await spool.threads.settled()
        figures = spool.statistics()
        assert (figures.open_files, figures.disk_bytes, figures.written_bytes_total) == (1, 5, 5)
        file.close()
        await spool.threads.settled()
        assert (spool.statistics().open_files, spool.statistics().disk_bytes) == (0, 0)
        spool.close()

    asyncio.run(scenario())


def test_stores_of_a_direction_have_figures(tmp_path):
    stores = BodyStores(
        Spool(tmp_path), memory=memory_budget(1 << 28), disk=disk_budget(1 << 30), memory_bytes=65_536
    )
    body = BodyStore(stores, "flow", "address", confirmed=True)
    assert (stores.statistics().open, stores.statistics().spooled_total) == (1, 0)
    body.end()
    assert stores.statistics().open == 0
