"""What the tests need beside Fairgate: Debian packages, client libraries, a Synapse."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools import autobahn, synapse
from tools.console import RUN, ToolError, fail, run_logged, step
from tools.venvs import ensure_fairgate, ensure_venv

CLIENTS_VENV = RUN / "clients-venv"
CLIENTS_JS = RUN / "clients-js"
NIO = ("matrix-nio>=0.25,<1",)
JS = (
    "matrix-js-sdk@37.5.0",  # later ones want a newer Node than Debian 12 has
    "ws@8.23.0",
)
PACKAGES = {
    "nginx": ("nginx-light", "nginx"),
    "haproxy": ("haproxy",),
    "slowhttptest": ("slowhttptest",),
    "node": ("nodejs",),
    "npm": ("npm",),
    "buildah": ("buildah",),
    "debootstrap": ("debootstrap",),
    "systemd-analyze": ("systemd",),
    "chromium": ("chromium",),
    "prometheus": ("prometheus",),
}


def main() -> int:
    """Install what is missing; 0 once everything is there."""
    try:
        _ensure_packages()
        ensure_fairgate("test")
        ensure_venv(CLIENTS_VENV, NIO, "installing matrix-nio for the tests")
        _ensure_js()
        autobahn.install()
        synapse.install()
    except ToolError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 130
    return 0


def find_program(name: str) -> str | None:
    """Return the path of a program; daemons live in sbin, which a user's PATH may not have."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin")


def _ensure_packages() -> None:
    missing = [names for program, names in PACKAGES.items() if find_program(program) is None]
    if not missing:
        return
    told = " ".join(names[0] for names in missing)
    apt = _apt_get()
    if apt is None:
        raise ToolError(f"the tests need Debian packages that are not there: apt-get install {told}")
    log = RUN / "logs" / "apt.log"
    with step(f"installing {told}"):
        run_logged([*apt, "update"], log)
        for names in missing:
            _install_one(apt, names, log)


def _install_one(apt: list[str], names: tuple[str, ...], log: Path) -> None:
    """Install the first of `names` this release has."""
    for name in names:
        try:
            return run_logged([*apt, "install", "--yes", "--no-install-recommends", name], log)
        except ToolError:
            if name == names[-1]:
                raise
    return None


def _apt_get() -> list[str] | None:
    """Return the command that may install packages, or None."""
    if shutil.which("apt-get") is None:
        return None
    environment = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    if os.geteuid() == 0:
        return environment
    if shutil.which("sudo") is None:
        return None
    allowed = subprocess.run(["sudo", "--non-interactive", "true"], capture_output=True, check=False)
    return ["sudo", "--non-interactive", *environment] if allowed.returncode == 0 else None


def _ensure_js() -> None:
    marker = CLIENTS_JS / "fairgate-complete"
    wanted = "\n".join(JS)
    if marker.exists() and marker.read_text() == wanted:
        return
    marker.unlink(missing_ok=True)
    CLIENTS_JS.mkdir(parents=True, exist_ok=True)
    (CLIENTS_JS / "package.json").write_text('{"private": true}\n')
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", *JS]
    with step("installing matrix-js-sdk and ws for the tests"):
        run_logged(command, RUN / "logs" / "npm.log", CLIENTS_JS)
    marker.write_text(wanted)


if __name__ == "__main__":
    sys.exit(main())
