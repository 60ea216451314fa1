"""The hosts that were learned, kept over restarts: gateways as host and port, peers as host, and nothing else (§7.2).

The file is written whole or not at all: beside it, synced, then renamed over it. A file that cannot be read counts as none.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import structlog

from proxy.mechanisms.origin_names import normal_host, split_authority, written
from proxy.policies.push_egress import MAX_KNOWN, KnownHosts

FILE_NAME: Final = "egress-hosts.json"
_VERSION: Final = 1
_MAX_FILE_BYTES: Final = 4 * 1024 * 1024

_log = structlog.get_logger("fairgate.egress")


def read_known(directory: Path, known: KnownHosts) -> None:
    """Take in what was kept, the first to be forgotten first; a bad file is told and left alone until the next write."""
    path = directory / FILE_NAME
    try:
        with path.open("rb") as file:
            tree: Any = json.loads(file.read(_MAX_FILE_BYTES))
        if not isinstance(tree, dict) or tree.get("version") != _VERSION:
            raise ValueError("another version")  # noqa: TRY301  (dealt with like every unreadable file)
        for text in tree["gateways"][-MAX_KNOWN:]:
            place = split_authority(text, None)
            if place is not None:
                known.learn(*place)
        for text in tree["peers"][-MAX_KNOWN:]:
            host = normal_host(text)
            if host is not None:
                known.learn_peer(host)
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _log.warning(
            "learned gateways cannot be read", path=str(path), error=f"{type(error).__name__}: {error}"
        )


def rendered(known: KnownHosts) -> bytes:
    """Give the file's bytes."""
    gateways = [written(host, port) for host, port in known.gateways]
    tree = {"version": _VERSION, "gateways": gateways, "peers": known.peers}
    return json.dumps(tree, indent=1).encode()


def write_whole(directory: Path, data: bytes) -> None:
    """Put the file in its place; blocks.

    Raises:
        OSError: and the old file is as it was.
    """
    path = directory / FILE_NAME
    aside = path.with_name(f"{FILE_NAME}.new")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
