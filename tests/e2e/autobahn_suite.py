"""What Autobahn's suite says of a peer spoken to directly, and of the same peer behind Fairgate; both at the same time.

As a program it plays every case. The suite wants 1,000 messages in each of its 216 compression cases, which is hours in its
Python; `--messages` says how many are sent instead.
"""

import argparse
import collections
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from e2e_support import running_fairgate, wait_for  # noqa: E402

from tools import autobahn  # noqa: E402
from tools.parts import CLIENTS_JS  # noqa: E402
from tools.processes import free_port  # noqa: E402

WAYS = ("direct", "through")
JUDGED = ("behavior", "behaviorClose", "received", "remoteCloseCode", "remoteCloseReason", "wasClean")
RUN_SUITE = """
import functools
import sys
from autobahntestsuite import case, fuzzing, wstest
fuzzing.listenWS = functools.partial(fuzzing.listenWS, interface="127.0.0.1")
messages = int(sys.argv.pop(1))
for each in case.Cases:
    if hasattr(each, "COUNT"):
        each.COUNT = messages
wstest.run()
"""


def judge_server(folder, cases, messages, within_s):
    """Autobahn as the client of an echo server; gives its verdicts, by way and case."""
    port = free_port()
    with (
        _running(_node("ws_echo.mjs", port), folder / "echo", port),
        running_fairgate(_made(folder / "fairgate"), f"http://127.0.0.1:{port}") as fairgate,
    ):
        suites = {}
        for way, to in zip(WAYS, (port, fairgate.port), strict=True):
            asked = {"servers": [{"agent": way, "url": f"ws://127.0.0.1:{to}"}], "cases": cases}
            suites[folder / way] = _suite("fuzzingclient", asked, folder / way, messages)
        _run_all(suites, within_s)
    return {way: _verdicts(folder / way, way) for way in WAYS}


def judge_client(folder, cases, messages, within_s):
    """Autobahn as the server of a client that echoes; gives its verdicts, by way and case."""
    port = free_port()
    server = _suite(
        "fuzzingserver", {"url": f"ws://127.0.0.1:{port}", "cases": cases}, folder / "server", messages
    )
    with _running(server, folder / "server", port):
        with running_fairgate(
            _made(folder / "fairgate"), f"http://127.0.0.1:{port}", profile="generic"
        ) as fairgate:
            ways = zip(WAYS, (port, fairgate.port), strict=True)
            _run_all({folder / way: _node("ws_client.mjs", to, port, way) for way, to in ways}, within_s)
        _run_all({folder / "report": _node("ws_client.mjs", port, port, "")}, 60)
    return {way: _verdicts(folder / "server", way) for way in WAYS}


def differing(verdicts):
    """Give {case: (direct, through)} where the verdicts are not the same."""
    direct, through = (verdicts[way] for way in WAYS)
    return {
        case: (direct.get(case), through.get(case))
        for case in sorted(direct.keys() | through.keys())
        if direct.get(case) != through.get(case)
    }


def _verdicts(folder, way):
    told = json.loads((folder / "index.json").read_text())[way]
    results = {case: json.loads((folder / one["reportfile"]).read_text()) for case, one in told.items()}
    return {case: {name: result[name] for name in JUDGED} for case, result in results.items()}


def _suite(mode, asked, folder, messages):
    spec = _made(folder) / "asked.json"
    spec.write_text(
        json.dumps({"outdir": str(folder), "exclude-cases": [], "exclude-agent-cases": {}, **asked})
    )
    command = [autobahn.PYTHON, "-W", "ignore", "-c", RUN_SUITE, str(messages), "--webport", "0"]
    return [*command, "--mode", mode, "--spec", spec]


def _node(script, *arguments):
    return ["node", HERE / "clients" / script, *map(str, arguments)]


@contextlib.contextmanager
def _running(command, folder, port):
    """Run a server until the end of the block."""
    with _started(command, folder) as child:
        wait_for(lambda: child.poll() is not None or _listens(port), 20, f"{folder.name} listens")
        assert child.poll() is None, _told(folder)
        yield
        assert child.poll() is None, _told(folder)


def _run_all(commands, within_s):
    """Run {folder: command} at the same time; each must end well."""
    deadline = time.monotonic() + within_s
    with contextlib.ExitStack() as stack:
        children = {
            folder: stack.enter_context(_started(command, folder)) for folder, command in commands.items()
        }
        for folder, child in children.items():
            assert child.wait(max(0, deadline - time.monotonic())) == 0, _told(folder)


@contextlib.contextmanager
def _started(command, folder):
    with (_made(folder) / "output").open("wb") as out:
        child = subprocess.Popen(
            command, cwd=CLIENTS_JS, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _told(folder):
    return (folder / "output").read_text(errors="replace")[-2000:]


def _made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main():
    parser = argparse.ArgumentParser(
        description="Every case of Autobahn's websocket suite, with and without Fairgate."
    )
    parser.add_argument("--cases", nargs="+", default=["*"], help="such as 1.* 9.1.2")
    parser.add_argument("--messages", type=int, default=20, help="in each compression case")
    parser.add_argument("--minutes", type=float, default=60, help="until it is given up")
    asked = parser.parse_args()
    if reason := autobahn.why_not_here():
        sys.exit(reason)
    wrong = 0
    for judge in (judge_server, judge_client):
        with tempfile.TemporaryDirectory() as folder:
            verdicts = judge(Path(folder), asked.cases, asked.messages, asked.minutes * 60)
        counts = collections.Counter(verdict["behavior"] for verdict in verdicts["direct"].values())
        told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
        different = differing(verdicts)
        wrong += len(different)
        lines = [f"{judge.__name__}: {len(verdicts['direct'])} cases ({told}), {len(different)} differ"]
        lines += [f"  {case}: {direct} | {through}" for case, (direct, through) in different.items()]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
