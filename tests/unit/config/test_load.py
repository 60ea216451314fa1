from pathlib import Path

import pytest

from proxy import parts
from proxy.admin.explain import Asked, explain, render
from proxy.config.load import ConfigError, load
from proxy.config.settings import Settings
from proxy.matrix.profiles import Figure
from proxy.observability.settings import LogSettings


def the_mistake(path):
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    (mistake,) = caught.value.mistakes
    return mistake


def test_a_file_is_read_and_a_byte_order_mark_is_skipped(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xef\xbb\xbflog: {level: debug}\n")
    assert load(file, {"FAIRGATE_LOG__ACCESS": "all"}).log == LogSettings(level="debug", access="all")


def test_a_file_that_cannot_be_read_gives_one_mistake(tmp_path):
    assert the_mistake(tmp_path / "none.yaml").message == "cannot be read: No such file or directory"
    assert the_mistake(tmp_path).message == "cannot be read: Is a directory"
    assert the_mistake(Path("a\x00b")).message == "cannot be read: not a file name"


def test_an_endless_file_is_refused():
    assert "larger than 1 MiB" in the_mistake(Path("/dev/zero")).message


def test_a_file_that_is_not_utf_8_is_refused_with_its_line(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_bytes(b"log:\n  level: \xff\n")
    assert (the_mistake(file).line, the_mistake(file).message) == (2, "is not UTF-8 text")


def test_an_empty_file_means_the_defaults(tmp_path):
    file = tmp_path / "config.yaml"
    file.touch()
    assert load(file, {}) == Settings()


def test_a_certificate_that_cannot_be_used_is_a_mistake_of_the_settings(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "listen:\n  - address: 127.0.0.1:0\n    tls:\n      certificates:\n"
        f"        - {{certificate: {tmp_path}/tls.crt, key: {tmp_path}/tls.key}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    (mistake,) = caught.value.mistakes
    assert (mistake.path, mistake.line) == ("listen[0].tls", 3)
    assert "tls.crt" in mistake.message


def test_figures_know_the_variable_that_set_them(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("sync: {workers: 40}\n")
    variables = {"FAIRGATE_LANES__REQUESTS__WORKERS": "10", "FAIRGATE_LANES__MEDIA": "{workers: 3}"}
    settings = load(path, variables)
    figures = parts.figures_of(settings, "synapse").given
    assert figures["lanes.requests.workers"] == Figure(10, "environment")
    assert figures["lanes.media.workers"] == Figure(3, "environment")
    assert figures["sync.workers"] == Figure(40, "file")
    asked = Asked("GET", "/_matrix/client/v3/joined_rooms")
    assert "lanes.requests.workers (environment)" in render(explain(asked, parts.rules(settings, "synapse")))
