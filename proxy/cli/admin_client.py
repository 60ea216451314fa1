"""Asks a running Fairgate's admin listener, at an `http://` URL or `unix:/path`."""

import http.client
import json
import socket
import urllib.parse
from typing import Any, Final

DEFAULT: Final = "http://127.0.0.1:9402"
_PATIENCE_S: Final = 10.0


class AdminError(Exception):
    """It cannot be reached, or refuses; the text says why in one line."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_PATIENCE_S)
        self.sock.connect(self._path)


class AdminClient:
    """Asks one listener, each time on a connection of its own."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def get(self, path: str, query: list[tuple[str, str]] | None = None) -> Any:
        """Give the document at a path.

        Raises:
            AdminError: if there is none.
        """
        target = path if not query else f"{path}?{urllib.parse.urlencode(query)}"
        connection = self._connection()
        try:
            connection.request("GET", target, headers=self._headers)
            answer = connection.getresponse()
            document = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise AdminError(f"{self._url} cannot be asked: {error}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise AdminError(f"{self._url} says {answer.status}: {document.get('message', answer.reason)}")
        return document

    def _connection(self) -> http.client.HTTPConnection:
        if self._url.startswith("unix:"):
            return _UnixConnection(self._url.removeprefix("unix:"))
        parts = urllib.parse.urlsplit(self._url)
        if parts.scheme != "http" or not parts.hostname:
            raise AdminError(f"{self._url} is neither http://HOST:PORT nor unix:/PATH")
        return http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=_PATIENCE_S)
