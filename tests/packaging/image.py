"""The image, built for real from the Dockerfile by buildah, on a base of Debian's own packages.

No registry of images is asked: debootstrap makes the base once and it is kept in `.run/image`. buildah isolates
with chroot, which needs root and nothing else; what chroot cannot do (a read-only root, no capabilities) is done
here with a mount namespace of its own.
"""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

from tools.console import ROOT, RUN, ToolError, run_logged, step

FOLDER = RUN / "image"
BASE = "localhost/python:3.13-slim"
BUILD_BASE = "localhost/python:3.13"
IMAGE = "localhost/fairgate:test"
REVISION = "0123456789abcdef"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PROGRAMS = ("buildah", "debootstrap")
_SUITE = "trixie"  # its Python is 3.13, as python:3.13-slim's
_PACKAGES = "ca-certificates,python3,python3-venv"
_BUILD_PACKAGES = f"{_PACKAGES},gcc,libc6-dev,python3-dev"
_NOT_NEEDED = (
    "var/cache/apt/archives/*.deb var/lib/apt/lists/* usr/share/doc/* usr/share/man/* usr/share/locale/*"
)
# Only /tmp can be written to. /bin/sh and bash cannot be run in there: the image must not need them.
_START = """
set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
for shell in usr/bin/dash usr/bin/bash; do mount --bind /dev/null "$root/$shell"; done
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/tmp"
exec chroot "$root" /usr/bin/setpriv --reuid=10001 --regid=10001 --clear-groups \
  --bounding-set=-all --inh-caps=-all --no-new-privs -- "$@"
"""


def why_not_here():
    """Say why an image can be built or started by nobody here; None if it can. Nothing else keeps these tests from running."""
    if os.geteuid() != 0:
        return "building an image needs root, for debootstrap and chroot"
    mounting = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        return "building an image needs mounts, which this machine does not allow"
    return None


def demand_programs():
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise ToolError(f"the image's tests need Debian packages: apt-get install {' '.join(missing)}")


def build():
    """Build IMAGE, and the base where there is none."""
    demand_programs()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for base, packages in ((BASE, _PACKAGES), (BUILD_BASE, _BUILD_PACKAGES)):
        if not _has(base):
            with step(f"making {base} of Debian packages, a minute"):
                _make_base(base, packages)
    _copy_sources()
    build_as(IMAGE)
    buildah("rmi", "--prune")


def build_as(tag, *options):
    command = [
        *("bud", "--isolation", "chroot", "--pull-never", "--format", "docker", "--layers=false"),
        *(
            "--build-arg",
            f"BASE={BASE}",
            "--build-arg",
            f"BUILD_BASE={BUILD_BASE}",
            "--build-arg",
            f"REVISION={REVISION}",
            *options,
            "-t",
            tag,
            str(FOLDER / "sources"),
        ),
    ]
    if Path(CERTIFICATES).exists():  # the package index may be behind an authority only this machine knows
        command[1:1] = ["-v", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
    run_logged(_buildah(*command), FOLDER / "build.log")


def inspect():
    """Return the image's configuration in Docker's words."""
    return json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]


def buildah(*arguments):
    done = subprocess.run(_buildah(*arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def command_in(root, environment, *command):
    """Give the command that runs `command` in a mounted container, read-only, as 10001 and without a shell."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return [
        "unshare",
        "--mount",
        "sh",
        "-c",
        _START,
        "start",
        root,
        "/usr/bin/env",
        "-i",
        *variables,
        *command,
    ]


def _buildah(*arguments):
    driver = _driver()
    storage = ("--root", FOLDER / driver, "--runroot", FOLDER / "run", "--storage-driver", driver)
    return ["buildah", *map(str, storage), *arguments]


@functools.cache
def _driver():
    """Overlay, or vfs where the file system has no overlays: twice as slow, with a full copy for each layer."""
    command = [
        "buildah",
        "--root",
        FOLDER / "overlay",
        "--runroot",
        FOLDER / "run",
        "--storage-driver",
        "overlay",
        "info",
    ]
    able = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return "overlay" if able else "vfs"


def _copy_sources():
    """Take what the image is made of as it is now, so that an editor at work does not change it between two builds."""
    sources = FOLDER / "sources"
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir()
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, sources)
    for name in ("proxy", "packaging"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))


def _has(image):
    known = subprocess.run(_buildah("inspect", "--type", "image", image), capture_output=True, check=False)
    return known.returncode == 0


def _make_base(name, packages):
    root = FOLDER / "rootfs"
    shutil.rmtree(root, ignore_errors=True)
    run_logged(
        ["debootstrap", "--variant=minbase", f"--include={packages}", _SUITE, root],
        FOLDER / "debootstrap.log",
    )
    subprocess.run(
        ["sh", "-c", f"cd '{root}' && rm -rf {_NOT_NEEDED} usr/lib/python3*/EXTERNALLY-MANAGED"], check=True
    )
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    container = buildah("from", "scratch")
    buildah("add", "-q", container, str(root), "/")
    buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", container)
    buildah("commit", "-q", container, name)
    buildah("rm", container)
    shutil.rmtree(root)
