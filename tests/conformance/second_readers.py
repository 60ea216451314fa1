"""Two other readers of HTTP: h11 and llhttp. Whatever Fairgate passes on, both must read it whole, and as the same.

llhttp knows a list of methods and no more, and no way to tell it of an answer to HEAD; what it cannot know it is not asked.
"""

from dataclasses import dataclass, field

import h11
import httptools

_KNOWN_METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"}
_MAX_EVENT_BYTES = 2_000_000


@dataclass
class Message:
    """A request or an answer as a reader took it, codings in lower case.

    `start` is method and target, or the status; `whole` if its end came.
    """

    start: tuple[object, ...] = ()
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    whole: bool = False


class Unread(Exception):  # noqa: N818  (a reader's word, not a fault)
    """A reader does not take the bytes; `messages` are those before."""

    def __init__(self, messages: list[Message], why: Exception) -> None:
        super().__init__(repr(why))
        self.messages = messages


# Requests.


def h11_requests(data: bytes) -> list[Message]:
    """Read requests one behind another, as a server that answers each; one that is not whole comes last."""
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_EVENT_BYTES)
    found: list[Message] = []
    try:
        server.receive_data(data)
        while isinstance(event := server.next_event(), h11.Request):
            message = Message((bytes(event.method), bytes(event.target)), _fields(event.headers))
            found.append(message)
            _read_body(server, message)
            if not message.whole or not _answer(server):
                break
    except h11.ProtocolError as error:
        raise Unread(found, error) from error
    return found


def _read_body(reader: h11.Connection, message: Message) -> None:
    while isinstance(event := reader.next_event(), h11.Data):
        message.body += event.data
    message.whole = isinstance(event, h11.EndOfMessage)


def _answer(server: h11.Connection) -> bool:
    """Answer, and tell whether another request may follow."""
    server.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
    server.send(h11.EndOfMessage())
    if server.our_state is not h11.DONE or server.their_state is not h11.DONE:
        return False
    server.start_next_cycle()
    return True


class _Events:
    """Gathers what llhttp tells."""

    def __init__(self) -> None:
        self.found: list[Message] = []
        self.parser: object = None

    def on_message_begin(self) -> None:
        self.found.append(Message())
        self._target = b""

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name, value = name.lower(), (value or b"").strip(b" \t")
        if not self.found[-1].start:  # what comes later are trailers
            self.found[-1].fields.append((name, value.lower() if name == b"transfer-encoding" else value))

    def on_headers_complete(self) -> None:
        if isinstance(self.parser, httptools.HttpRequestParser):
            self.found[-1].start = (self.parser.get_method(), self._target)
        else:
            self.found[-1].start = (self.parser.get_status_code(),)

    def on_body(self, body: bytes) -> None:
        self.found[-1].body += body

    def on_message_complete(self) -> None:
        self.found[-1].whole = True


def llhttp_request(data: bytes) -> list[Message]:
    """Read one request's bytes; a method that llhttp does not know is POST to it, and the request's own again after."""
    method, rest = data.split(b" ", 1)
    events = _Events()
    events.parser = httptools.HttpRequestParser(events)
    known = method if method in _KNOWN_METHODS else b"POST"
    try:
        events.parser.feed_data(known + b" " + rest)
    except httptools.HttpParserUpgrade as upgrade:
        if upgrade.args[0] != len(known) + 1 + len(rest):
            raise Unread(events.found, upgrade) from upgrade
    except httptools.HttpParserError as error:
        raise Unread(events.found, error) from error
    for message in events.found:
        message.start = (method, *message.start[1:])
    return events.found


# Answers.


def h11_answers(data: bytes, methods: list[bytes], *, ended: bool) -> list[Message]:
    """Read the answers to requests of these methods; interim answers are among them. `ended`: the connection was closed."""
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_EVENT_BYTES)
    found: list[Message] = []
    try:
        client.receive_data(data)
        if ended:
            client.receive_data(b"")
        for method in methods:
            client.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
            client.send(h11.EndOfMessage())
            while isinstance(event := client.next_event(), h11.InformationalResponse):
                found.append(Message((event.status_code,), _fields(event.headers), whole=True))
            if not isinstance(event, h11.Response):
                break
            message = Message((event.status_code,), _fields(event.headers))
            found.append(message)
            _read_body(client, message)
            if client.our_state is not h11.DONE or client.their_state is not h11.DONE:
                break
            client.start_next_cycle()
    except h11.ProtocolError as error:
        raise Unread(found, error) from error
    return found


def llhttp_answers(data: bytes, *, ended: bool) -> list[Message]:
    """Read answers, none of them to HEAD; one without an end of its own is whole once the connection is `ended`."""
    events = _Events()
    events.parser = httptools.HttpResponseParser(events)
    try:
        events.parser.feed_data(data)
    except httptools.HttpParserUpgrade as upgrade:
        raise Unread(events.found, upgrade) from upgrade
    except httptools.HttpParserError as error:
        raise Unread(events.found, error) from error
    if ended and events.found:
        last = events.found[-1]
        framed = {name for name, _ in last.fields} & {b"content-length", b"transfer-encoding"}
        last.whole = last.whole or not framed
    return events.found


def _fields(headers: object) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value in headers]
