"""No compiled module believes an attribute to be what it was before a call, nor cuts bytes by bounds unseen (ADR 21)."""

import pytest

from tools.believed import compiled_files, search

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BELIEVERS = """
from collections.abc import Callable


class Part:
    def work(self) -> None:
        pass


class Whole:
    def __init__(self, told: Callable[[], None]) -> None:
        self.part: Part | None = None
        self.told = told

    def clear(self) -> None:
        self.part = None

    def after_a_method(self) -> None:
        if self.part is not None:
            self.clear()
            self.part.work()  # found

    def after_a_callback(self) -> None:
        self.part = Part()
        self.told()
        self.part.work()  # found

    def in_a_loop(self) -> None:
        if self.part is None:
            return
        for _ in range(2):
            self.part.work()  # found

    def on_one_way(self, *, clears: bool) -> None:
        if self.part is not None:
            if clears:
                self.clear()
            self.part.work()  # found

    def of_another(self, other: "Whole") -> None:
        if other.part is not None:
            self.told()
            other.part.work()  # found

    async def after_waiting(self, other: "Whole") -> None:
        if self.part is not None:
            await other.after_waiting(self)
            self.part.work()  # found

    def read_once(self) -> None:
        part = self.part
        if part is not None:
            self.clear()
            part.work()

    def asked_again(self) -> None:
        self.told()
        if self.part is not None:
            self.part.work()

    def cut(self, data: bytes, start: int, end: int) -> bytes:
        return data[start:end]

    def cut_safely(self, data: bytes, start: int) -> bytes:
        return data[start:] + data[:start]
"""

#: Slices of bytes by two computed bounds, and why the end is never before the beginning.
CUTS = {
    (
        "proxy/downstream/client_requests.py",
        "ClientRequests._read_head",
    ): 1,  # `head_end` looks from `start` on
    ("proxy/downstream/client_socket.py", "ClientSocket.send"): 1,  # `end` is `sent` and more
    ("proxy/http1/chunked.py", "ChunkedBody.feed"): 3,  # `position` only grows, `start` follows it
    ("proxy/http1/fields.py", "without"): 1,  # matches of one search, in order
    ("proxy/http1/request_head.py", "_read_fields"): 1,  # a group's start and end
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    sample = tmp_path_factory.mktemp("sample") / "believers.py"
    sample.write_text(BELIEVERS)
    return search([*compiled_files(), sample])


def test_no_attribute_is_believed_after_a_call(found):
    assert [str(read) for read in found[0] if read.file != "believers.py"] == []


def test_every_slice_of_bytes_by_computed_bounds_was_looked_at(found):
    counts = {}
    for file, function, _, _ in found[1]:
        if file != "believers.py":
            counts[file, function] = counts.get((file, function), 0) + 1
    assert counts == CUTS


def test_what_believes_is_found_and_what_reads_once_is_not(found):
    marked = [number for number, line in enumerate(BELIEVERS.splitlines(), 1) if line.endswith("# found")]
    assert sorted({read.line for read in found[0] if read.file == "believers.py"}) == marked
    assert [cut.function for cut in found[1] if cut.file == "believers.py"] == ["Whole.cut"]


def test_all_that_is_compiled_is_searched():
    names = {path.name for path in compiled_files()}
    assert {"exchange.py", "worker_share.py", "whoami.py"} <= names
    assert "settings.py" not in names
