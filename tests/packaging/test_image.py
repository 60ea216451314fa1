"""The image is built and started here for real: read-only, as user 10001, without capabilities and without a shell."""

import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import image
import pytest

from tools.console import ROOT
from tools.processes import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
OURS_AT_MOST_BYTES = 64 << 20
READY_WITHIN_S = 5.0


def test_the_image_says_what_it_is_and_how_it_runs(built_image):
    assert built_image["User"] == "10001:10001"
    assert built_image["Entrypoint"] == ["fairgate"]
    assert built_image["Cmd"] == ["run", "--config", "/etc/fairgate/config.yaml"]
    assert built_image["StopSignal"] == "SIGTERM"
    assert set(built_image["ExposedPorts"]) == {"8010/tcp", "9403/tcp"}
    assert built_image["Healthcheck"]["Test"][0] == "CMD"
    labels = built_image["Labels"]
    assert labels["org.opencontainers.image.title"] == "fairgate"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["org.opencontainers.image.revision"] == image.REVISION


def test_it_holds_what_the_lock_names_and_no_tool_to_install_more(image_root):
    packages = Path(image_root, "opt/fairgate/lib/python3.13/site-packages")
    installed = {
        path.name.removesuffix(".dist-info").lower().replace("_", "-")
        for path in packages.glob("*.dist-info")
    }
    locked = set()
    for line in (ROOT / "packaging" / "requirements.lock").read_text().splitlines():
        if "==" in line and not line.startswith((" ", "#")):
            name, _, version = line.split(" ")[0].partition("==")
            locked.add(f"{name}-{version}")
    assert installed == locked | {"fairgate-0.1.0"}
    assert not list(Path(image_root, "opt").glob("build"))


def test_what_fairgate_adds_to_the_base_is_small(image_root):
    paths = [
        Path(folder, name) for folder, _, names in os.walk(Path(image_root, "opt/fairgate")) for name in names
    ]
    size = sum(path.lstat().st_size for path in paths)
    assert size < OURS_AT_MOST_BYTES, f"{size / (1 << 20):.1f} MiB"


def test_it_answers_through_to_the_homeserver_read_only_without_shell_and_ends_when_told(
    image_root, homeserver, tmp_path
):
    port, metrics = free_port(), free_port()
    environment = {
        "PATH": "/opt/fairgate/bin:/usr/local/bin:/usr/bin:/bin",
        "FAIRGATE_HOMESERVER__URL": homeserver.url,
        "FAIRGATE_LISTEN__0__ADDRESS": f"127.0.0.1:{port}",
        "FAIRGATE_METRICS__LISTEN": f"127.0.0.1:{metrics}",
        "FAIRGATE_ADMIN__LISTEN": f"127.0.0.1:{free_port()}",
    }
    run = image.inspect()
    command = image.command_in(image_root, environment, *run["Entrypoint"], *run["Cmd"])
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_ready(f"http://127.0.0.1:{metrics}/readyz", child, tmp_path / "log")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_matrix/client/v3/sync?x=%2F") as answer:
                assert answer.read() == b'{"versions":["v1.11"]}'
            assert "/_matrix/client/v3/sync?x=%2F" in homeserver.asked
            status = Path(f"/proc/{child.pid}/status").read_text()
            assert "Uid:\t10001\t10001\t10001\t10001\n" in status
            assert "CapEff:\t0000000000000000\n" in status
            check = [part.replace("9403", str(metrics)) for part in run["Healthcheck"]["Test"][1:]]
            assert (
                subprocess.run(image.command_in(image_root, environment, *check), check=False).returncode == 0
            )
        finally:
            child.terminate()
            code = child.wait(10)
    assert code == 0


def test_there_is_no_shell_where_these_tests_run_it(image_root):
    tried = subprocess.run(
        image.command_in(image_root, {}, "/bin/sh", "-c", "true"), capture_output=True, text=True, check=False
    )
    assert tried.returncode == 126
    assert "Permission denied" in tried.stderr


def test_it_refuses_a_wrong_configuration_in_one_line(image_root):
    environment = {"PATH": "/opt/fairgate/bin", "FAIRGATE_HOMESERVER__URL": "synapse"}
    run = image.inspect()
    command = image.command_in(image_root, environment, *run["Entrypoint"], *run["Cmd"])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAIRGATE_HOMESERVER__URL" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_the_same_sources_give_the_same_files(image_root):
    again = f"{image.IMAGE}-again"
    image.build_as(again)
    container = image.buildah("from", "--pull-never", again)
    try:
        assert _digests(image_root) == _digests(image.buildah("mount", container))
    finally:
        image.buildah("rm", container)
        image.buildah("rmi", again)


def _digests(root):
    command = "cd opt/fairgate && find . -type f -print0 | sort -z | xargs -0 sha256sum"
    return (
        subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, check=True)
        .stdout.decode()
        .splitlines()
    )


def _wait_ready(url, child, log):
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        assert child.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"not ready: {log.read_text()}"
        try:
            with urllib.request.urlopen(url, timeout=3):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.01)
