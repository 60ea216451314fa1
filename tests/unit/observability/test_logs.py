import json
import logging
import threading

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from proxy.observability.log_lines import LogLines
from proxy.observability.logs import configure_logs, printable_values, redact_target
from proxy.observability.settings import LogSettings


@pytest.fixture(autouse=True)
def logs_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_line_is_json_with_level_and_utc_time_on_stderr(capsys):
    configure_logs(LogSettings())
    structlog.get_logger().info("refused", reason="head_too_large", size_bytes=5)
    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert captured.out == ""
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "refused", "level": "info", "reason": "head_too_large", "size_bytes": 5}


@pytest.mark.parametrize("form", ["json", "console"])
def test_nothing_logged_can_forge_a_line_or_show_a_secret(capsys, form):
    configure_logs(LogSettings(format=form))
    structlog.get_logger().warning(
        "odd\nevent",
        value="a\nb\x1b[31m\x00\u2028\u202e\x9b",
        raw=b"\n\xff",
        authorization="Bearer s3cret",
        Access_Token="s3cret",
        nested={"token": "s3cret", "list": ["c\rd", "Bearer s3cret", {1}]},
        text="GET /x?access_token=s3cret&b",
    )
    text = capsys.readouterr().err
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    assert "s3cret" not in text


def test_a_finalizer_that_logs_in_the_middle_of_a_line_stops_nobody(tmp_path):
    class Lost:
        def __del__(self):
            structlog.get_logger().warning("of a finalizer")

    class Collecting(LogLines):
        def write(self, text):
            if "outer" in text:
                Lost()  # as the collector finds garbage wherever it runs
            super().write(text)

    with (tmp_path / "log").open("wb") as file:
        lines = Collecting(file.fileno(), lambda _: None)
        configure_logs(LogSettings(), lines)
        # A thread that may be left behind: before, it waited for itself.
        logging_ = threading.Thread(target=lambda: structlog.get_logger().info("outer"), daemon=True)
        logging_.start()
        logging_.join(5)
        assert not logging_.is_alive()
        lines.close(5)
    told = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert told == ["of a finalizer", "outer"]


def test_a_traceback_on_the_console_cannot_pass_for_a_line(capsys):
    configure_logs(LogSettings(format="console"))
    try:
        int("first\n2026-01-01 [info] forged\x1b")
    except ValueError:
        structlog.get_logger().exception("fault")
    lines = capsys.readouterr().err.splitlines()
    assert "fault" in lines[0]
    assert all(line.startswith("    | ") and line.isprintable() for line in lines[1:])
    assert len(lines) > 3


def test_what_libraries_log_comes_as_the_same_json(capsys):
    configure_logs(LogSettings())
    logging.getLogger("aiohttp.server").error("lost %s", "a\nb")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["logger"]) == ("lost a\\nb", "error", "aiohttp.server")


def test_lines_below_the_level_are_left_out(capsys):
    configure_logs(LogSettings(level="error"))
    structlog.get_logger().warning("small")
    logging.getLogger("x").warning("small")
    assert capsys.readouterr().err == ""


def test_configuring_again_replaces_what_was(capsys):
    configure_logs(LogSettings())
    configure_logs(LogSettings(format="console"))
    logging.getLogger("x").warning("once")
    assert capsys.readouterr().err.count("once") == 1


def test_values_of_any_depth_become_printable():
    deep = value = []
    for _ in range(20):
        value.append([])
        value = value[0]
    value.append("a\nb")
    assert str(printable_values(None, "", {"deep": deep})).isprintable()


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (b"/a?b=c", "/a?b=c"),
        (b"/a?access_token=x", "/a?access_token=<redacted>"),
        (b"/a?access_token=", "/a?access_token=<redacted>"),
        (
            b"/a?b&access_token=x&c=d&access_token=y",
            "/a?b&access_token=<redacted>&c=d&access_token=<redacted>",
        ),
        (b"/a?%61ccess%5Ftoken=x&c", "/a?%61ccess%5Ftoken=<redacted>&c"),
        (b"/a?access_token%3Dx", "/a?access_token=<redacted>"),
        (b"/a?b=1;access_token=x;y&c", "/a?b=1;access_token=<redacted>&c"),
        (b"/a?url=http%3A%2F%2Fh%2F%3Faccess_token%3Dx", "/a?url=<redacted>"),
        (b"/a\x00\xff\\ b", "/a\\x00\\xff\\\\ b"),
        (b"", ""),
    ],
)
def test_a_target_is_written_without_its_token(target, text):
    assert redact_target(target) == text


def test_a_long_target_is_cut():
    assert len(redact_target(b"/" + b"a" * 20_000)) == 512
    assert redact_target(b"/" + b"a" * 20_000).endswith("...")


def encoded(name):
    """Any mix of plain and percent-encoded octets, of either case."""
    ways = [st.sampled_from([chr(byte), f"%{byte:02x}", f"%{byte:02X}"]) for byte in name]
    return st.tuples(*ways).map(lambda parts: "".join(parts).encode())


TOKENS = st.text("GHJKL;=?#+%$!/", min_size=8, max_size=30).map(lambda text: f"QZ{text}ZQ".encode())
OTHER = st.binary(max_size=12).filter(lambda octets: b"Z" not in octets)


@given(
    TOKENS,
    encoded(b"access_token"),
    st.lists(OTHER, max_size=4),
    st.lists(OTHER, max_size=4),
    st.sampled_from("&;?"),
)
def test_a_token_never_comes_out_wherever_and_however_it_is_named(token, name, before, after, separator):
    before_it = b"".join(part + separator.encode() for part in before)
    target = b"/path?" + before_it + name + b"=" + token + b"".join(b"&" + part for part in after)
    text = redact_target(target)
    assert "Z" not in text
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 512


@given(st.binary(max_size=1200))
def test_any_target_becomes_a_short_printable_line(target):
    text = redact_target(target)
    assert text.isprintable()
    assert len(text) <= 512
