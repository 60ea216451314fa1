"""Uploads before a real Synapse: whose are read, what is told to the others, and what reaches the homeserver."""

import hashlib
import json
import random
import re
import select
import time
from pathlib import Path

import pytest
from e2e_support import MIB, running_fairgate, wait_for
from tap import Tap
from watched import call

WHOAMI = "/_matrix/client/v3/account/whoami"
POST = "POST /_matrix/media/v3/upload"
LARGE = 3 * MIB // 2
MAX_UPLOAD = 50 * MIB
PIECE = 64 * 1024
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.fixture(scope="module")
def tap(watched):
    with Tap(watched.port) as tap:
        yield tap


@pytest.fixture(scope="module")
def gate(tap, tmp_path_factory):
    with running_fairgate(tmp_path_factory.mktemp("uploads"), tap.url) as fairgate:
        yield fairgate


@pytest.fixture(scope="module")
def heidi(watched):
    return watched.accounts("heidi")["heidi"]


def head(line, token, *fields, version="1.1"):
    lines = [f"{line} HTTP/{version}", "Host: localhost", "Content-Type: application/octet-stream", *fields]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Framing:
    """How a body is told: by its length, or in chunks."""

    def __init__(self, name, *, chunked=False, expect=False, version="1.1", put=False):
        self.name, self.chunked, self.expect, self.version, self.put = name, chunked, expect, version, put

    def head(self, line, token, size):
        fields = ["Transfer-Encoding: chunked" if self.chunked else f"Content-Length: {size}"]
        fields += ["Expect: 100-continue"] * self.expect
        return head(line, token, *fields, version=self.version)

    def pieces(self, content):
        for at in range(0, len(content), PIECE):
            piece = content[at : at + PIECE]
            yield b"%x\r\n%b\r\n" % (len(piece), piece) if self.chunked else piece
        if self.chunked:
            yield b"0\r\n\r\n"


FRAMINGS = [
    Framing("length"),
    Framing("length, Expect", expect=True),
    Framing("chunked", chunked=True),
    Framing("chunked, Expect", chunked=True, expect=True),
    Framing("HTTP/1.0", version="1.0"),
    Framing("PUT, length", put=True),
    Framing("PUT, length, Expect", put=True, expect=True),
    Framing("PUT, chunked", put=True, chunked=True),
]
every_framing = pytest.mark.parametrize("framing", FRAMINGS, ids=lambda framing: framing.name)


class Client:
    """Sends as fast as it can, whatever it is told, and reads what comes meanwhile; `sent` counts its bytes."""

    def __init__(self, fairgate):
        self.sock = fairgate.connect()
        self.sock.setblocking(False)
        self.may_continue = False  # whether a 100 before the answer is right
        self.answer, self.sent = b"", 0
        self.ended = self.is_cut = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, pieces, within_s=20):
        """Send until all is sent or the connection is cut; that the other side has ended is no reason to stop."""
        for piece in pieces:
            left = memoryview(piece)
            while left and not self.is_cut:
                reading = [] if self.ended else [self.sock]
                readable, writable, _ = select.select(reading, [self.sock], [], within_s)
                assert readable or writable, "neither side goes on"
                if readable:
                    self._read()
                elif writable:
                    left = left[self._send(left) :]

    def read(self, until, within_s=20):
        """Read until the answer so far satisfies, or the other side has ended."""
        while not until(self.answer) and not self.ended:
            assert select.select([self.sock], [], [], within_s)[0], f"nothing more came after {self.answer!r}"
            self._read()
        return self.answer

    def read_all(self):
        self.read(lambda answer: is_whole(self._final(answer)))
        return self._final(self.answer)

    def _final(self, answer):
        return answer.removeprefix(CONTINUE) if self.may_continue else answer

    def _send(self, data):
        try:
            count = self.sock.send(data)
        except BlockingIOError:
            return 0
        except ConnectionError:
            self.is_cut = True
            return 0
        self.sent += count
        return count

    def _read(self):
        try:
            data = self.sock.recv(262_144)
        except ConnectionError:
            data, self.is_cut = b"", True
        self.answer += data
        self.ended = not data


def is_whole(answer):
    head_, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head_)
    if length:
        return len(body) >= int(length[1])
    return bool(end) and body.endswith((b"0\r\n\r\n", b"}"))  # a JSON object to the end of the connection


def parsed(answer):
    """Status, fields in lower case, JSON body of an answer by length or in chunks."""
    head_, _, body = answer.partition(b"\r\n\r\n")
    lines = head_.decode().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if fields.get("transfer-encoding") == "chunked":
        body = re.sub(rb"[0-9a-f]+\r\n(.*?)\r\n(?=[0-9a-f]+\r\n)|0\r\n\r\n$", rb"\1", body, flags=re.DOTALL)
    return int(lines[0].split()[1]), fields, json.loads(body)


def line_for(framing, watched=None, account=None):
    """Where this upload goes; an async one needs a place made for it, unless it is to be refused."""
    if not framing.put:
        return POST
    if watched is None:
        return "PUT /_matrix/media/v3/upload/localhost/nobodys"
    created = watched.ask(account.access_token, "POST", "/_matrix/media/v1/create", {})
    return "PUT /_matrix/media/v3/upload/" + created["content_uri"].removeprefix("mxc://")


def uploads(tap):
    return [one for one in list(tap.seen) if "/upload" in one.path]


@every_framing
def test_an_upload_without_a_token_is_refused_and_no_byte_of_it_reaches_the_homeserver(tap, gate, framing):
    before = len(uploads(tap))
    with Client(gate) as client:
        client.send([framing.head(line_for(framing), None, LARGE)])
        if framing.chunked:
            client.may_continue = framing.expect  # it may yet be a small one
            client.send(framing.pieces(bytes(LARGE)))
        answer = client.read_all()
    status, fields, body = parsed(answer)
    assert (status, body["errcode"], fields["connection"]) == (401, "M_MISSING_TOKEN", "close")
    assert fields["fairgate-reason"] == "missing_token"
    assert uploads(tap)[before:] == []


@every_framing
def test_the_homeservers_own_401_is_passed_on_byte_for_byte(tap, gate, framing):
    before, token = len(uploads(tap)), f"syt_aGVpZGk_{random.randrange(10**18)}_madeup"
    with Client(gate) as client:
        client.send([framing.head(line_for(framing), token, LARGE)])
        if framing.chunked:
            client.may_continue = framing.expect  # it may yet be a small one
            client.send(framing.pieces(bytes(LARGE)))
        answer = client.read_all()
    asked = next(one for one in tap.of(WHOAMI) if token in one.fields["authorization"])
    assert b'"M_UNKNOWN_TOKEN"' in asked.answer
    if framing.version == "1.0":
        assert parsed(answer)[::2] == parsed(asked.answer)[::2], "without the chunks, which it cannot read"
        assert b"chunked" not in answer
    else:
        assert without_connection(answer) == without_connection(asked.answer)
    assert uploads(tap)[before:] == []


def without_connection(answer):
    return re.sub(rb"(?i)\r\nconnection: *(close|keep-alive)(?=\r\n)", b"", answer)


@every_framing
def test_an_accounts_upload_is_read_and_arrives_whole(watched, tap, gate, heidi, framing):
    before, content = len(uploads(tap)), random.Random(framing.name).randbytes(LARGE)
    with Client(gate) as client:
        client.send([framing.head(line_for(framing, watched, heidi), heidi.access_token, LARGE)])
        if framing.expect:
            assert (
                client.read(lambda answer: answer.endswith(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
            )
            client.answer = b""
        client.send(framing.pieces(content))
        status, _, _ = parsed(client.read_all())
    assert status == (400 if framing.chunked else 200), "Synapse wants a length: its answer is the right one"
    (seen,) = uploads(tap)[before:]
    assert seen.body_bytes == LARGE
    assert ("transfer-encoding" in seen.fields) == framing.chunked, "framed as it came"


def test_a_guest_is_somebody_and_the_homeserver_decides(watched, gate):
    guest = call(watched.url, None, "POST", "/_matrix/client/v3/register?kind=guest", {}).body
    answer = call(gate.url, guest["access_token"], *POST.split(), bytes(LARGE))
    assert (answer.status, answer.reason) == (403, None)


def test_while_whoami_fails_small_bodies_are_read_and_large_ones_answered_with_503(watched, tap, gate, heidi):
    tokens = [watched.log_in(heidi)["access_token"] for _ in range(2)]
    before = len(uploads(tap))
    tap.fails = lambda seen: 503 if seen.path == WHOAMI else None
    try:
        small = call(gate.url, tokens[0], *POST.split(), bytes(MIB))
        large = call(gate.url, tokens[1], *POST.split(), bytes(MIB + 1))
        json_ = call(gate.url, tokens[1], "POST", "/_matrix/client/v3/createRoom", bytes(MIB + 1))
    finally:
        tap.fails = None
    assert small.status == 200
    for answer in (large, json_):
        assert (answer.status, answer.reason, answer.errcode) == (503, "identity_unknown", "M_LIMIT_EXCEEDED")
        assert 1 <= int(answer.fields["Retry-After"]) <= 60
        assert answer.body["retry_after_ms"] > 0
    assert [one.body_bytes for one in uploads(tap)[before:]] == [MIB]


def test_so_it_is_with_a_large_json_body(tap, gate, heidi):
    path = f"/_matrix/client/v3/user/{heidi.user_id}/account_data/large"
    body = json.dumps({"text": "x" * LARGE}).encode()
    refused = call(gate.url, None, "PUT", path, body)
    assert (refused.status, refused.errcode) == (401, "M_MISSING_TOKEN")
    assert tap.of("/account_data/large") == []
    assert call(gate.url, heidi.access_token, "PUT", path, body).reason is None
    assert [one.body_bytes for one in tap.of("/account_data/large")] == [len(body)]


def test_what_is_larger_than_the_homeserver_takes_is_refused_by_its_length_alone(tap, gate, heidi):
    call(gate.url, heidi.access_token, *POST.split(), b"x")  # somebody's upload makes it known
    wait_for(lambda: gate.status()["bodies"]["max_upload_bytes"] == MAX_UPLOAD, 5, "the media config")
    before = len(uploads(tap))
    for expects in (True, False):
        with Client(gate) as client:
            client.send([Framing("", expect=expects).head(POST, heidi.access_token, MAX_UPLOAD + 1)])
            status, _, body = parsed(client.read_all())
        assert (status, body["errcode"]) == (413, "M_TOO_LARGE")
    assert uploads(tap)[before:] == []


def test_a_homeserver_that_knows_only_the_old_path_is_asked_there_and_one_that_fails_sets_no_limit(
    tap, heidi, tmp_path
):
    paths = ["/_matrix/client/v1/media/config", "/_matrix/media/v3/config"]
    with running_fairgate(tmp_path, tap.url) as fairgate:
        before = len(tap.seen)
        statuses = {paths[0]: 404, paths[1]: 500}
        tap.fails = lambda seen: statuses.get(seen.path)
        try:
            assert call(fairgate.url, heidi.access_token, *POST.split(), bytes(LARGE)).status == 200
            sizes = wait_for(
                lambda: (told := fairgate.status()["bodies"])["media_config_failed_total"] and told
            )
        finally:
            tap.fails = None
        assert [one.path for one in tap.seen[before:] if one.path in paths] == paths
        assert sizes["max_upload_bytes"] is None


def read_bytes(fairgate):
    """What the process has read so far, from sockets and files, as the kernel counts it."""
    return int(re.search(r"rchar: (\d+)", Path(f"/proc/{fairgate.child.pid}/io").read_text())[1])


@pytest.mark.parametrize("token", [None, "syt_aGVpZGk_nobody_madeup"], ids=["no token", "no such token"])
def test_who_goes_on_sending_after_a_refusal_sees_it_and_costs_a_mebibyte_at_most(gate, token):
    read_before = read_bytes(gate)
    with Client(gate) as client:
        client.send([Framing("").head(POST, token, MAX_UPLOAD)])
        began_at = time.monotonic()
        client.send(Framing("").pieces(bytes(MAX_UPLOAD)))
        answer = client.read_all()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert is_whole(answer)
    assert client.sent < MAX_UPLOAD / 2
    assert time.monotonic() - began_at < 5
    assert MIB / 2 < read_bytes(gate) - read_before < MIB + 256 * 1024


def test_who_reads_only_after_it_has_sent_all_sees_the_refusal_too(gate):
    with gate.connect() as sock:
        sock.sendall(Framing("").head(POST, None, MIB + 1) + bytes(MIB + 1))
        answer = b""
        while data := sock.recv(4096):
            answer += data
    assert parsed(answer)[0] == 401


def test_fifty_mebibytes_come_back_as_they_went(tap, gate, heidi):
    content = random.Random(50).randbytes(MAX_UPLOAD)
    uploaded = call(gate.url, heidi.access_token, *POST.split(), content)
    assert uploaded.status == 200
    assert uploads(tap)[-1].body_bytes == MAX_UPLOAD
    media = uploaded.body["content_uri"].removeprefix("mxc://")
    path = f"/_matrix/client/v1/media/download/{media}"
    downloaded = call(gate.url, heidi.access_token, "GET", path)
    assert downloaded.status == 200
    assert hashlib.sha256(downloaded.raw).digest() == hashlib.sha256(content).digest()
    bodies = gate.status()["bodies"]
    wait_for(lambda: gate.status()["bodies"]["spool"]["open_files"] == 0, 5, "the spool to be empty")
    assert bodies["requests"]["spooled_total"] > 0
