"""The few Matrix calls the tools make, over `http.client`, TCP or a Unix socket."""

import http.client
import json
import socket
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from tools.console import ToolError

TIMEOUT_S = 30.0


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def call(
    base: str, method: str, path: str, body: Any = None, token: str | None = None
) -> tuple[int, dict[str, Any]]:
    """Return status and JSON object of one request. Raises OSError or HTTPException where there is none."""
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection = _connection(base)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        raw = response.read()
    finally:
        connection.close()
    try:
        parsed = json.loads(raw)
    except ValueError:
        parsed = None
    return response.status, parsed if isinstance(parsed, dict) else {}


def demand_homeserver(base: str) -> None:
    """Raise ToolError unless a Matrix homeserver answers at `base`."""
    try:
        status, versions = call(base, "GET", "/_matrix/client/versions")
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"no homeserver answers at {base}: {error or type(error).__name__}") from error
    if status != http.HTTPStatus.OK or "versions" not in versions:
        raise ToolError(f"{base} is no Matrix homeserver: /_matrix/client/versions answered {status}")


def _connection(base: str) -> http.client.HTTPConnection:
    if base.startswith("unix:"):
        return _UnixConnection(str(PurePosixPath(base.removeprefix("unix:"))))
    try:
        url = urlsplit(base)
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if host and url.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    if host and url.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S)
    raise ToolError(f"{base!r} is no homeserver address; use http://host:port or unix:/path")
