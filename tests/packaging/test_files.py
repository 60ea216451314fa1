"""What can be judged without running it: the Dockerfile's style, the locks, the systemd unit, the compose file."""

import itertools
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.version import Version

from proxy.cli.main import main
from proxy.config.parse import parse
from proxy.config.settings import Settings
from tools.console import ROOT

PACKAGING = ROOT / "packaging"
UNIT = PACKAGING / "fairgate.service"
SOCKET = PACKAGING / "fairgate.socket"
DRAIN_S = 25


def locked(name):
    """Give each package of a lock with its version; assert that each has hashes."""
    found = {}
    for entry in re.split(r"\n(?=\S)", (PACKAGING / name).read_text()):
        if entry.startswith("#"):
            continue
        package, _, version = entry.split()[0].partition("==")
        assert "--hash=sha256:" in entry, package
        found[package.lower()] = Version(version)
    return found


def test_the_lock_has_every_dependency_in_a_version_that_is_allowed():
    versions = locked("requirements.lock")
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        wanted = Requirement(text)
        assert versions[wanted.name.lower()] in wanted.specifier, (
            f"{text}: make the lock anew, by the command at its top"
        )


def test_the_lock_of_the_build_has_the_build_backend_and_the_compiler():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["build-system"]["requires"]
    wanted += project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["dependencies"]
    versions = locked("build-requirements.lock")
    for requirement in map(Requirement, wanted):
        assert versions[requirement.name] in requirement.specifier
    assert (PACKAGING / "build-requirements.in").read_text().split() == wanted


def test_hadolint_finds_nothing_in_the_dockerfile():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_find_something(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp; apt-get install curl\n")
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, tmp_path / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 1


def test_systemd_understands_every_line_of_the_units(tmp_path):
    """The program is not where the unit has it, so the copy that is checked names one that exists."""
    socket = Path(shutil.copy(SOCKET, tmp_path))
    copy = tmp_path / "fairgate.service"
    copy.write_text(UNIT.read_text().replace("/opt/fairgate/bin/fairgate", shutil.which("true")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy, socket], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "fairgate" in line]
    assert (done.returncode, ours) == (0, [])


def test_systemd_finds_the_unit_well_hardened():
    """0 is nothing exposed, 100 everything; an ordinary service has 96."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=20", UNIT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_and_compose_wait_longer_than_a_drain():
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)[1]) > DRAIN_S + 1
    fairgate = yaml.safe_load((PACKAGING / "compose.yaml").read_text())["services"]["fairgate"]
    assert int(fairgate["stop_grace_period"].removesuffix("s")) > DRAIN_S + 1


def test_the_unit_gives_fairgate_the_directory_it_keeps_for_it_and_never_gives_up():
    lines = UNIT.read_text().splitlines()
    given = dict(
        line.removeprefix("Environment=").split("=") for line in lines if line.startswith("Environment=")
    )
    settings = parse("homeserver: {url: http://127.0.0.1:8008}", given)
    assert isinstance(settings, Settings), settings
    assert settings.state_directory == "/var/lib/fairgate"
    assert "StateDirectory=fairgate" in lines
    assert {"Restart=on-failure", "RestartSec=5"} <= set(lines)
    assert "StartLimitIntervalSec=0" in lines[: lines.index("[Service]")]


def test_the_socket_unit_listens_where_the_settings_do():
    (address,) = re.findall(r"^ListenStream=(.+)$", SOCKET.read_text(), re.MULTILINE)
    listen = yaml.safe_load((ROOT / "config.yaml").read_text())["listen"]
    assert [place["address"] for place in listen] == [address]


def test_in_compose_only_fairgate_can_be_reached_and_it_can_do_little():
    services = yaml.safe_load((PACKAGING / "compose.yaml").read_text())["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["fairgate"]
    fairgate = services["fairgate"]
    assert fairgate["ports"] == ["127.0.0.1:8008:8010"]
    assert fairgate["read_only"] is True
    assert fairgate["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in fairgate["security_opt"]
    assert (PACKAGING / fairgate["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"


def test_in_compose_large_bodies_are_on_disk_and_a_proxy_on_the_host_is_believed():
    document = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
    fairgate = document["services"]["fairgate"]
    assert "tmpfs" not in fairgate
    assert fairgate["volumes"] == ["fairgate-tmp:/tmp"]
    assert "fairgate-tmp" in document["volumes"]
    settings = parse((PACKAGING / "container.yaml").read_text(), fairgate["environment"])
    assert isinstance(settings, Settings), settings
    assert settings.clients.trusted_proxies == ("172.16.0.0/12",)


def test_docker_is_told_what_compose_is():
    fairgate = yaml.safe_load((PACKAGING / "compose.yaml").read_text())["services"]["fairgate"]
    operations = (ROOT / "docs" / "operations.md").read_text()
    command = operations.partition("docker run ")[2].partition("```")[0].replace("\\\n", " ").split()
    given = dict(itertools.pairwise(command))
    assert given["--stop-timeout"] + "s" == fairgate["stop_grace_period"]
    assert given["--ulimit"] == f"nofile={fairgate['ulimits']['nofile']}"
    assert [given["--volume"]] == fairgate["volumes"]
    assert [given["--cap-drop"]] == fairgate["cap_drop"]
    assert [given["--security-opt"]] == fairgate["security_opt"]
    assert [given["--publish"]] == fairgate["ports"]


def test_what_starts_fairgate_uses_words_it_knows():
    told = CliRunner().invoke(main, ["run", "--help"]).output
    for text in (UNIT.read_text(), (ROOT / "Dockerfile").read_text()):
        assert "--config" in text
    assert "--config" in told


@pytest.mark.parametrize("name", ["requirements.lock", "build-requirements.lock"])
def test_a_lock_names_no_index(name):
    assert "://" not in (PACKAGING / name).read_text()
