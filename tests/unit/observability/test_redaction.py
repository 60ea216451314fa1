"""No token comes out anywhere, whatever it looks like and wherever a client puts it."""

import json
import logging
import urllib.parse

import pytest
import structlog
import uvloop
from clients import whoami_of
from harness import OK, Answer, World
from prometheus_client import CollectorRegistry, generate_latest

from proxy.admin.explain import Asked
from proxy.observability.logs import configure_logs
from proxy.observability.metrics import SnapshotCollector
from proxy.observability.settings import LogSettings

CRC = "0aB3xZ"
ALNUM = "Zq7Kd81LmN0pR5tUvW2xY9aBcDeF3gHi"
TOKENS = {
    "Synapse": f"syt_YWxpY2U_ZqKdLmNpRtUvWxYzAbCd_{CRC}",
    "Synapse, refresh": f"syr_YWxpY2U_ZqKdLmNpRtUvWxYzAbCd_{CRC}",
    "Synapse, login": f"syl_ZqKdLmNpRtUvWxYzAbCd_{CRC}",
    "macaroon of a guest": "MDAxOGxvY2F0aW9uIG1hdHJpeC5vcmcKMDAxM2lkZW50aWZpZXIga2V5CjAwMTBjaWQgZ2VuID0gMQo-_8",
    "MAS": f"mat_{ALNUM[:30]}_{CRC}",
    "MAS, compat": f"mct_{ALNUM[:30]}_{CRC}",
    "MAS, personal": f"mpt_{ALNUM[:30]}_{CRC}",
    "MAS, refresh": f"mar_{ALNUM[:30]}_{CRC}",
    "MAS, compat refresh": f"mcr_{ALNUM[:30]}_{CRC}",
    "Dendrite": "Zq7Kd81LmN0pR5tUvW2xY9aBcDeF3gHi-_jKlMnOpQr",
    "tuwunel": ALNUM,
    "tuwunel, refresh": f"refresh_{ALNUM}",
    "continuwuity": ALNUM[:24],
    "appservice": "wfghWEGh3wgWHEf3478sHFWE",
    "appservice, free form": "as!token#of$the%bridge",
    "shared secret": "aSharedSecretOf~48~Characters~Between~MAS~And~HS",
}
PATH = "/_matrix/client/v3/joined_rooms"
SYNC = "/_matrix/client/v3/sync?since=1&timeout=1"


@pytest.fixture(autouse=True)
def logs_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def get(target, *fields):
    return "".join(f"{line}\r\n" for line in (f"GET {target} HTTP/1.1", "Host: h", *fields, "")).encode()


def post(target, value, *fields):
    body = json.dumps(value)
    head = (f"POST {target} HTTP/1.1", "Host: h", *fields, f"Content-Length: {len(body)}", "", body)
    return "\r\n".join(head).encode()


def requests_with(token):
    """A token where it belongs, and where it does not."""
    quoted = urllib.parse.quote(token, safe="")
    odd = "".join(f"%{byte:02x}" for byte in token.encode())
    yield get(PATH, f"Authorization: Bearer {token}")
    yield get(PATH, f"authorization: bearer  {token}", "User-Agent: a")
    yield get(f"{PATH}?access_token={quoted}")
    yield get(f"{PATH}?a=b&%61ccess_token={odd}&c=d")
    yield get(f"{SYNC}&access_token={quoted}", f"Authorization: Bearer {token}")
    yield get(f"/_matrix/client/v3/register/m.login.registration_token/validity?token={quoted}")
    yield get(f"/_synapse/client/password_reset/email/submit_token?client_secret={quoted}&sid=1")
    yield post("/_matrix/client/v3/refresh", {"refresh_token": token})
    yield post("/_matrix/client/v3/login", {"type": "m.login.token", "token": token})
    yield post(PATH, {"access_token": token}, f"Authorization: Bearer {token}")
    yield get(
        f"//evil?access_token={quoted}", f"Authorization: Bearer {token}", "Bad Field: x"
    )  # refused by its framing


def everything_shown(application, target):
    """All that operators can ask for."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(application.snapshot))
    views = application.operators._views
    shown = [generate_latest(registry).decode(), views.picture(), views.history.document()]
    shown += [views.flows(by, 100) for by in ("worker_seconds", "waiting", "waits", "refused", "kept_bytes")]
    shown += views.explain(Asked("GET", target))
    return json.dumps(shown)


@pytest.mark.parametrize("shape", TOKENS)
def test_no_token_comes_out_in_logs_views_or_trace(capsys, tmp_path, shape):
    token = TOKENS[shape]
    configure_logs(LogSettings(level="debug"))
    trace = tmp_path / "trace"
    log = {
        "access": "all",
        "slow_seconds": 1e-6,
        "top_every_seconds": 1,
        "level": "debug",
        "trace": str(trace),
    }

    async def run():
        world = World(
            {"log": log, "sync": {"workers": 1, "per_account": 1, "per_device": 1, "grace_seconds": 0}}
        )
        await world.start()
        try:
            wires = list(requests_with(token))
            world.homeserver.begin((Answer(OK),) * len(wires)).whoami = whoami_of(
                {token.encode(): "@alice:h"}
            )
            for wire in wires:
                line = await world.connect()
                await line.send(wire)
                await line.until(lambda line=line: b"\r\n\r\n" in line.received or line.ended is not None)
                line.reset()
            return everything_shown(world.application, f"{PATH}?access_token={urllib.parse.quote(token)}")
        finally:
            await world.stop()

    shown = uvloop.run(run())
    captured = capsys.readouterr()
    text = captured.out + captured.err + trace.read_text() + shown
    for secret in {token, urllib.parse.quote(token, safe=""), token[:20]}:
        assert secret not in text
    assert '"event": "request"' in captured.err
    assert '"event": "refused"' in captured.err
    assert '"event": "slow"' in captured.err
    assert "<redacted>" in captured.err
