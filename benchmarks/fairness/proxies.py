"""The proxies under attack, each as an operator would tune it who knows of the attacks.

nginx: `limit_conn 4` by address for requests and 4 for sync, bodies and answers buffered. HAProxy: `maxconn` as the homeserver
has workers and a queue, sticky tables refusing more than 4 at once by address (the same for sync), bodies buffered. Fairgate:
its defaults, for a homeserver it does not know; the configuration names only where to listen and where the homeserver is.
"""

import json
import os
import resource
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import peers
from benchmarks.fairness.homeserver import REQUEST_WORKERS, SYNC_WORKERS
from benchmarks.fairness.priority import FIRST, set_niceness
from tools.console import ToolError
from tools.parts import find_program
from tools.processes import free_port, wait_until

NO_PROXY = "no proxy"
OURS = "Fairgate"
NAMES = (NO_PROXY, "nginx", "HAProxy", OURS)
_READY_WITHIN_S = 15

_NGINX = """\
{user}daemon off; worker_processes 1; worker_rlimit_nofile {descriptors};
pid {folder}/nginx.pid; error_log {folder}/nginx-error.log crit;
events {{ worker_connections {connections}; }}
http {{
  access_log off; client_max_body_size 100m; limit_conn_status 429;
  limit_conn_zone $binary_remote_addr zone=requests:10m;
  limit_conn_zone $binary_remote_addr zone=syncs:10m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream homeserver {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000; }}
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
  proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme; proxy_read_timeout 600s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ limit_conn requests 4; proxy_pass http://homeserver; }}
    location ~ ^/_matrix/client/.*/sync$ {{ limit_conn syncs 4; proxy_pass http://homeserver; }}
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
  option http-buffer-request
  http-reuse always
  timeout connect 5s
  timeout client 75s
  timeout server 600s
  timeout queue 30s
  timeout http-request 30s
  timeout http-keep-alive 75s
frontend clients
  bind 127.0.0.1:{port} backlog 4096
  http-request set-header X-Forwarded-Proto http
  acl sync path_end /sync
  http-request track-sc0 src table syncs if sync
  http-request track-sc1 src table requests if !sync
  http-request deny deny_status 429 if sync {{ sc0_conn_cur gt 4 }}
  http-request deny deny_status 429 if !sync {{ sc1_conn_cur gt 4 }}
  use_backend syncs if sync
  default_backend requests
backend requests
  stick-table type ip size 100k expire 60s store conn_cur
  server homeserver 127.0.0.1:{upstream} maxconn {request_workers}
backend syncs
  stick-table type ip size 100k expire 60s store conn_cur
  server homeserver 127.0.0.1:{upstream} maxconn {sync_workers}
"""


def demand_installed(names: tuple[str, ...]) -> None:
    """Raise ToolError naming what is missing."""
    missing = [
        name.lower() for name in names if name not in (NO_PROXY, OURS) and find_program(name.lower()) is None
    ]
    if missing:
        raise ToolError(
            f"the benchmark needs programs that are not here: apt-get install {' '.join(missing)}"
        )


@contextmanager
def running(name: str, folder: Path, upstream: int, core: int) -> Iterator[int]:
    """Run a proxy in front of the homeserver at `upstream` on `core`; yields the port clients connect to."""
    if name == NO_PROXY:
        yield upstream
        return
    port, metrics = free_port(), free_port()
    log = folder / f"{name}.log"
    command = _ours(folder, port, metrics, upstream) if name == OURS else _peer(name, folder, port, upstream)
    with peers.running(command, core, log, port) as started:
        for pid in started.pids():
            set_niceness(pid, FIRST)
        if name == OURS:
            wait_until(lambda: _is_ready(metrics), _READY_WITHIN_S, "Fairgate's /readyz", log=log)
        yield port


def version_of(name: str) -> str:
    """Give a proxy's name with its version."""
    return name if name == NO_PROXY else f"{name} {peers.version_of(name)}"


def _ours(folder: Path, port: int, metrics: int, upstream: int) -> list[str]:
    settings = {
        "listen": [{"address": f"127.0.0.1:{port}"}],
        "homeserver": {"url": f"http://127.0.0.1:{upstream}"},
        "admin": {"listen": f"127.0.0.1:{free_port()}"},
        "metrics": {"listen": f"127.0.0.1:{metrics}"},
        "log": {"access": "none"},
    }
    config = folder / "fairgate.yaml"
    config.write_text(json.dumps(settings))  # JSON is YAML
    return ["env", f"TMPDIR={folder}", sys.executable, "-m", "proxy", "run", "--config", str(config)]


def _peer(name: str, folder: Path, port: int, upstream: int) -> list[str]:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text = (_NGINX if name == "nginx" else _HAPROXY).format(
        port=port,
        upstream=upstream,
        folder=folder,
        user="user root; " if os.geteuid() == 0 else "",
        descriptors=descriptors,
        connections=min(descriptors, 12_000),
        request_workers=REQUEST_WORKERS,
        sync_workers=SYNC_WORKERS,
    )
    config = folder / f"{name}.conf"
    config.write_text(text)
    program = find_program(name.lower()) or name.lower()
    return [program, "-c", str(config)] if name == "nginx" else [program, "-db", "-f", str(config)]


def _is_ready(metrics: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
