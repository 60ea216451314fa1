"""Listening at Unix sockets; the kernel lets a second process take the path of one that still listens, so it is asked first."""

import asyncio
import errno
import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


async def listen(
    protocols: Callable[[], asyncio.BaseProtocol], at: str | socket.socket, backlog: int
) -> asyncio.Server:
    """Listen at a path, or with a socket that was handed over.

    Whoever closes the server removes the path, if it is theirs to remove.

    Raises:
        OSError: if the path is taken or cannot be used.
    """
    where: dict[str, Any] = {"backlog": backlog}
    if sys.version_info >= (3, 13):
        where["cleanup_socket"] = (
            False  # else the path of a socket that was handed over goes, which outlives this process
        )
    if isinstance(at, str):
        free_path(at)
        where["path"] = at
    else:
        where["sock"] = at
    return await asyncio.get_running_loop().create_unix_server(protocols, **where)


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
