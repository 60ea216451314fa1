import gzip
import http.server
import json
import socketserver
import threading

import picture_support
import pytest
from click.testing import CliRunner

from proxy.cli.main import main
from proxy.observability.status import status_document

SYNC = "/_matrix/client/v3/sync?since=s1&timeout=30000"
TRACE = {
    "v": 1, "at": 1796032800.0, "flow": "@hog:b", "address": "192.0.2.7", "method": "GET", "endpoint": "sync",
    "class": "sync", "lane": None, "poll_s": 30.0, "device": "D", "confirmed": True, "service_s": 30.0, "status": 200,
}  # fmt: skip


def fairgate(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


class Asked(http.server.BaseHTTPRequestHandler):
    answers: dict
    seen: list

    def do_GET(self):
        self.seen.append((self.path, self.headers.get("Authorization")))
        status, document = self.answers[self.path.partition("?")[0]]
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def admin():
    """An admin listener that answers as it is told."""
    status = status_document(picture_support.SNAPSHOT)
    flow = {"flow": "@hog\x1b[31m:b", "kind": "account", "worker_seconds": 12.5, "running": 3, "held": 0, "waiting": 7,
            "waits": 1, "ghosts": 0, "refused": 4, "kept_bytes": 2048}  # fmt: skip
    findings = [{"topic": "class", "says": "sync", "why": "it is so"}]
    answers = {
        "/v1/status": (200, status),
        "/v1/flows": (200, {"by": "worker_seconds", "flows": [flow]}),
        "/v1/explain": (200, {"findings": findings}),
    }
    kind = type("Handler", (Asked,), {"answers": answers, "seen": []})
    with socketserver.TCPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        kind.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield kind
        server.shutdown()
        thread.join()


def test_top_shows_lanes_flows_and_refusals_and_nothing_a_name_could_draw(admin):
    result = fairgate("top", "--once", "--admin", admin.url)
    assert result.exit_code == 0, result.output
    for word in ("requests", "@hog", "12.5", "head_too_large", "refusing", "only reporting: sync"):
        assert word in result.output
    assert "\x1b[31m" not in result.output


def test_the_token_comes_from_a_file(admin, tmp_path):
    file = tmp_path / "token"
    file.write_text("a-token-for-operators\n")
    fairgate("top", "--once", "--admin", admin.url, "--token-file", file)
    assert {field for _, field in admin.seen} == {"Bearer a-token-for-operators"}


def test_who_cannot_be_asked_is_told_in_one_line(admin):
    admin.answers["/v1/status"] = (401, {"error": "unauthorized", "message": "admin.token is set"})
    result = fairgate("top", "--once", "--admin", admin.url)
    assert result.exit_code == 1
    assert result.output == f"fairgate: {admin.url} says 401: admin.token is set\n"
    for url in (
        "http://127.0.0.1:1",
        "unix:/none",
        "ftp://h",
        "http://localhost:abc",
        "http://[::1",
        "http://h:99999",
    ):
        result = fairgate("explain", "GET", "/", "--admin", url)
        assert result.exit_code == 1
        assert result.output.startswith(f"fairgate: {url}")
        assert result.output.count("\n") == 1


@pytest.mark.parametrize("document", [[], "text", {"status": "ok"}, {"flows": 1, "findings": [1]}, None])
@pytest.mark.parametrize("command", [("top", "--once"), ("explain", "GET", "/")], ids=["top", "explain"])
def test_what_is_not_fairgate_is_told_in_one_line(admin, command, document):
    for path in admin.answers:
        admin.answers[path] = (200, document)
    result = fairgate(*command, "--admin", admin.url)
    assert result.exit_code == 1
    assert result.output.startswith(f"fairgate: {admin.url} answers, but not as Fairgate ")
    assert result.output.count("\n") == 1


def test_a_refusal_that_is_no_document_is_told_too(admin):
    admin.answers["/v1/status"] = (502, ["bad gateway"])
    result = fairgate("top", "--once", "--admin", admin.url)
    assert (result.exit_code, result.output) == (1, f"fairgate: {admin.url} says 502: Bad Gateway\n")


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00s3cr3t", b"s3cr3t\ns3cr3t", "s3cr3t-ü".encode(), b"s3cr3t \x00"]
)
def test_a_file_without_a_token_is_told_in_one_line_that_does_not_show_it(admin, tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    result = fairgate("top", "--once", "--admin", admin.url, "--token-file", file)
    assert (result.exit_code, result.output) == (
        1,
        f"fairgate: {file}: has no token, which is visible ASCII characters\n",
    )
    assert admin.seen == []


@pytest.mark.parametrize("account", ["alice", "alice:example.org", "@alice", "@alice:", ""])
def test_an_account_is_written_with_its_server(admin, account):
    result = fairgate("explain", "GET", "/", "--account", account, "--admin", admin.url)
    assert result.exit_code == 2
    assert "write @name:server" in result.output
    assert admin.seen == []


def test_explain_asks_a_running_one_with_all_it_was_given(admin):
    result = fairgate(
        "explain", "get", SYNC, "--account", "@a:b", "--header", "User-Agent: x", "--admin", admin.url
    )
    assert result.output == "class  sync\n         because it is so\n"
    ((path, _),) = admin.seen
    assert "method=get" in path
    assert "account=%40a%3Ab" in path
    assert "header=User-Agent%3A+x" in path


def test_explain_alone_reads_the_configuration(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("sync: {per_device: 1}\n")
    result = fairgate("explain", "GET", SYNC, "--account", "@a:b", "--config", file, "--profile", "synapse")
    assert result.exit_code == 0, result.output
    assert "one of 1 waits of its device" in result.output
    assert fairgate("explain", "GET", "sync", "--config", file).exit_code == 2
    assert fairgate("explain", "GET", "/", "--header", "no", "--config", file).exit_code == 2
    assert fairgate("explain", "GET", "/", "--config", file, "--profile", "none").exit_code == 2


def trace_of(count):
    return "".join(
        json.dumps(TRACE | {"at": TRACE["at"] + number / 10}, separators=(",", ":")) + "\n"
        for number in range(count)
    )


@pytest.mark.parametrize("packed", [False, True])
def test_replay_names_who_would_have_been_refused(tmp_path, packed):
    config = tmp_path / "config.yaml"
    config.write_text("sync: {per_account: 2, per_device: 2, grace_seconds: 0}\n")
    log = tmp_path / ("trace.gz" if packed else "trace")
    data = (trace_of(6) + "noise\n").encode()
    log.write_bytes(gzip.compress(data) if packed else data)
    told = json.loads(fairgate("replay", log, "--config", config, "--json").stdout)
    assert told["log"] == {"format": "trace", "lines": 7, "unread": 1, "without_duration": 0}
    assert told["would_be_refused"] == {"sync_device": 4}
    assert told["flows"][0]["flow"] == "@hog:b"
    table = fairgate("replay", log, "--config", config)
    assert table.exit_code == 0
    assert "sync_device 4" in table.output


def test_replay_of_what_is_no_log_is_told_in_one_line(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("{}\n")
    for text in ("", "nothing\n" * 5):
        log = tmp_path / "log"
        log.write_text(text)
        result = fairgate("replay", log, "--config", config)
        assert result.exit_code == 1
        assert "neither a trace of Fairgate nor an access log" in result.output
    assert fairgate("replay", tmp_path / "none", "--config", config).exit_code == 1


def test_top_into_a_file_is_one_picture(admin):
    result = fairgate("top", "--admin", admin.url)
    assert (result.exit_code, result.output.count("top flows by")) == (0, 1)
