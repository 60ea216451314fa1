"""Asks a running Fairgate's admin listener, at an `http://` URL or `unix:/path`."""

import http.client
import json
import socket
import urllib.parse
from typing import Any, Final

from proxy import __version__

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

    def get(self, path: str, query: list[tuple[str, str]] | None = None) -> dict[str, Any]:
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
            said = document.get("message") if isinstance(document, dict) else None
            raise AdminError(f"{self._url} says {answer.status}: {said or answer.reason}")
        if not isinstance(document, dict):
            raise self.no_fairgate()
        return document

    def no_fairgate(self) -> AdminError:
        """Give what is to be raised where an answer is none of Fairgate's."""
        return AdminError(f"{self._url} answers, but not as Fairgate {__version__} does: is it admin.listen?")

    def _connection(self) -> http.client.HTTPConnection:
        if self._url.startswith("unix:"):
            return _UnixConnection(self._url.removeprefix("unix:"))
        try:
            parts = urllib.parse.urlsplit(self._url)
            host, port = parts.hostname, parts.port or 80
        except ValueError:  # brackets that do not match, a port that is no number
            host = None
        if not host or parts.scheme != "http":
            raise AdminError(f"{self._url} is neither http://HOST:PORT nor unix:/PATH")
        return http.client.HTTPConnection(host, port, timeout=_PATIENCE_S)
