"""What a connect fails of: the other side, or our own want of descriptors."""

import contextlib
import errno
import os
import resource
import socket

import pytest

from proxy.want_of_descriptors import is_for_want_of_descriptors

RESOLVER = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
SEVERAL = OSError("Multiple exceptions: ...")


@contextlib.contextmanager
def no_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_ours(number):
    assert is_for_want_of_descriptors(OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(errno.ECONNREFUSED, "refused"), RESOLVER, SEVERAL, TimeoutError()]
)
def test_anything_else_is_the_others_while_a_file_can_be_opened(error):
    assert not is_for_want_of_descriptors(error)


def test_a_timeout_is_nobodys_want_of_descriptors():
    with no_descriptors():
        found = is_for_want_of_descriptors(TimeoutError())
    assert not found


@pytest.mark.parametrize("error", [RESOLVER, SEVERAL])
def test_who_does_not_say_why_is_judged_by_whether_a_file_can_be_opened(error):
    with no_descriptors():
        found = is_for_want_of_descriptors(error)
    assert found
