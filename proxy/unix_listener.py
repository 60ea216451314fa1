"""Whether a Unix socket's path can be listened at: the kernel lets a second process take the path of one that still listens."""

import errno
import os
import socket
import stat
from pathlib import Path


def free_path(path: str) -> None:
    """Remove what a process that is gone left at `path`; nothing else is touched.

    Raises:
        OSError: if somebody listens there, if what is there is no socket, or if it cannot be told.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode) or _is_listened_at(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    Path(path).unlink(missing_ok=True)


def _is_listened_at(path: str) -> bool:
    """Tell whether a process has it: also one with a full line (EAGAIN), or that speaks datagrams (EPROTOTYPE)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
        failed = asking.connect_ex(path)
    if failed in (errno.EACCES, errno.EPERM):
        raise OSError(failed, os.strerror(failed))
    return failed != errno.ECONNREFUSED
