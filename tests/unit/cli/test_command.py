import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from proxy import __version__
from proxy.cli.main import main

MISTAKEN = "connections:\n  max: many\n  head_secnds: 5\n"


def fairgate(*arguments, **environment):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)


@pytest.fixture
def config(tmp_path):
    def write(text):
        file = tmp_path / "config.yaml"
        file.write_text(text)
        return file

    return write


def test_check_says_fine(config):
    file = config("log: {level: debug}\n")
    result = fairgate("check", file)
    assert (result.exit_code, result.output) == (0, f"{file}: fine\n")


def test_check_warns_of_what_is_right_and_dangerous(config, tmp_path):
    file = config(
        "admin: {listen: '0.0.0.0:9402'}\nclients:\n  trusted_proxies:\n    - 10.0.0.1\n    - ::/0\n"
        f"log: {{trace: {tmp_path}/none/trace}}\n"
    )
    result = fairgate("check", file, FAIRGATE_EGRESS__CLIENTS="[0.0.0.0/0]")
    *warnings, last = result.output.splitlines()
    assert (result.exit_code, last) == (0, f"{file}: fine, 4 warnings")
    assert [line.partition(" ")[0] + line.split(": ")[2] for line in warnings] == [
        f"{file}:5:clients.trusted_proxies[1]",
        "environment:FAIRGATE_EGRESS__CLIENTS[0]",
        f"{file}:1:admin.listen",
        f"{file}:6:log.trace",
    ]
    assert {line.split(": ")[1] for line in warnings} == {"warning"}


def test_check_prints_every_mistake_with_its_line_and_nearest_key(config):
    file = config(MISTAKEN)
    result = fairgate("check", file, FAIRGATE_LOG__LEVL="info")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f'{file}:2: connections.max: must be a whole number, not the text "many"',
        f"{file}:3: connections.head_secnds: is not a known key (did you mean head_seconds?)",
        "environment: FAIRGATE_LOG__LEVL: is not a setting of Fairgate (did you mean FAIRGATE_LOG__LEVEL?)",
        f"{file}: 3 mistakes",
    ]


def test_run_with_mistakes_starts_nothing_and_tells_them_on_stderr(config):
    result = fairgate("run", "--config", config(MISTAKEN))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith("fairgate: not started: 2 mistakes\n")


@pytest.mark.parametrize("arguments", [("check",), ("run", "--config")])
def test_a_missing_file_is_told_in_one_clear_line(arguments, tmp_path):
    result = fairgate(*arguments, tmp_path / "none.yaml")
    assert result.exit_code == 1
    assert result.output.startswith(f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory\n")
    assert "Traceback" not in result.output


def test_a_file_name_cannot_forge_a_line(tmp_path):
    result = fairgate("check", tmp_path / "a\nb.yaml")
    assert "a\\nb.yaml" in result.output


@pytest.mark.slow
def test_a_taken_port_is_told_in_one_line(config):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"listen: [{{address: '127.0.0.1:{port}'}}]\nadmin: {{listen: '127.0.0.1:0'}}\n"
        file = config(text + "metrics: {listen: '127.0.0.1:0'}\n")
        # A process of its own: `run` sets the event loop, the signals and the logs of its process.
        command = [sys.executable, "-m", "proxy", "run", "--config", file]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("fairgate: not started: ")
    assert f"127.0.0.1:{port}" in last
    assert "Traceback" not in result.stderr


def test_version_is_printed():
    assert fairgate("version").output == f"fairgate {__version__}, interpreted\n"


def test_help_tells_what_to_do_at_three_in_the_morning():
    text = fairgate("--help").output
    for word in ("run", "check", "version", "/readyz", "/v1/status", "kill -TERM"):
        assert word in text
    assert "--config" in fairgate("run", "--help").output
    assert "FILE:LINE" in fairgate("check", "-h").output


def test_a_mistyped_command_is_answered_without_a_traceback():
    result = fairgate("chek")
    assert result.exit_code == 2
    assert "No such command" in result.output
