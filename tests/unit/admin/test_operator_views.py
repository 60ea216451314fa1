"""What the views say about a running Fairgate."""

import json

import pytest
import structlog
import uvloop
from harness import OK, Answer, World, until

from proxy import clock
from proxy.admin.explain import Asked
from proxy.observability.settings import LogSettings

THINKS = Answer(b"", after="head")
PATH = b"/_matrix/client/v3/joined_rooms"
SYNC = b"/_matrix/client/v3/sync?since=1&timeout=30000"


def get(target):
    return b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % target


async def ask(world, target, address="127.0.0.1"):
    """One client more, and its request."""
    line = await world.connect(address)
    world.clients.append(line)
    await line.send(get(target))
    return line


def with_world(tell, **settings):
    async def run():
        world = World({"lanes": {"requests": {"workers": 4}}, **settings})
        await world.start()
        world.clients = []
        try:
            await tell(world, world.application.operators._views)
        finally:
            for line in world.clients:
                line.reset()
            await world.stop()

    uvloop.run(run())


async def busy(world):
    """One flow with a worker and something in line, another with a long poll."""
    world.homeserver.begin((THINKS,) * 5)
    for target, address in ((PATH, "127.0.0.2"), (PATH, "127.0.0.2"), (SYNC, "127.0.0.3")):
        await ask(world, target, address)
    await until(lambda: world.lane("requests").waiting == 1 and world.waits.live == 1)


def test_flows_are_ranked_by_what_is_asked_for():
    async def tell(world, views):
        await busy(world)
        (first,) = views.flows("waiting", 5)
        assert (first["flow"], first["kind"]) == ("127.0.0.2", "address")
        assert (first["running"], first["waiting"]) == (1, 1)
        assert [row["flow"] for row in views.flows("waits", 5)] == ["127.0.0.3"]
        assert [row["flow"] for row in views.flows("worker_seconds", 5)] == ["127.0.0.2"]
        assert views.flows("refused", 5) == views.flows("kept_bytes", 5) == []
        assert json.dumps(views.picture())

    with_world(tell)


def test_who_is_refused_is_in_the_flows():
    async def tell(world, views):
        world.homeserver.begin((THINKS,) * 9)
        for _ in range(9):
            await ask(world, SYNC, "127.0.0.4")
        await until(lambda: views.flows("refused", 1))
        (row,) = views.flows("refused", 5)
        assert (row["flow"], row["refused_error"]) == ("127.0.0.4", 0)
        status = views.status()
        assert sum(status["refused_total"].values()) >= row["refused"] >= 1

    with_world(tell, sync={"workers": 8, "per_account": 2, "per_device": 2, "grace_seconds": 0})


def test_explain_says_how_full_it_is_now():
    async def tell(world, views):
        await busy(world)
        now = {f.topic: f.says for f in views.explain(Asked("GET", PATH.decode(), "@a:b"))}
        assert now["lane now"].startswith("requests: 1 of 4 run, 0 held, 1 in line")
        assert now["account now"] == "has nothing, and had nothing lately"
        assert now["gate now"] == "admitting, 0 of 2 places taken, 0 in line"
        sync = {f.topic: f.says for f in views.explain(Asked("GET", SYNC.decode()))}
        assert sync["waits now"] == "1 of 32 waits in all, 0 of them ghosts"
        assert "lane now" not in sync

    with_world(tell)


def test_the_status_shows_what_holds_now():
    async def tell(world, views):
        await busy(world)
        status = views.status()
        lane = status["workers"]["lanes"][0]
        assert (lane["name"], lane["workers"], lane["running"], lane["waiting"]) == ("requests", 4, 1, 1)
        assert status["waits"]["live"] == 1
        assert status["profile"]["figures"]["lanes.requests.workers"] == {"value": 4, "origin": "file"}
        assert status["homeservers"][0]["key"].startswith("http://127.0.0.1:")
        assert set(status["modes"].values()) == {"enforce"}
        assert "127.0.0.2" not in json.dumps(status)

    with_world(tell)


def test_waits_and_service_times_are_counted_by_class():
    async def tell(world, views):
        world.homeserver.begin((Answer(OK),) * 2)
        for _ in range(2):
            line = await ask(world, PATH)
            await line.until_received(b"ok")
        durations = views.status()["durations"]
        assert durations["service"]["requests"]["count"] == 2
        assert durations["wait"]["requests"]["p99_seconds"] == 0.001
        assert durations["service"]["media"]["count"] == 0

    with_world(tell)


def test_report_mode_counts_and_tells_what_it_would_refuse():
    async def tell(world, views):
        world.application.pipeline.recorder.configure(LogSettings(), clock.now())
        world.homeserver.begin((THINKS,) * 4)
        with structlog.testing.capture_logs() as lines:
            for _ in range(4):
                await ask(world, SYNC, "127.0.0.4")
            await until(lambda: world.waits.totals.outside)
        status = views.status()
        assert status["modes"]["sync"] == "report"
        assert status["modes"]["lanes"] == "enforce"
        assert sum(status["refused_total"].values()) == 0
        assert sum(status["reported_total"].values()) >= 1
        told = [line for line in lines if line["event"] == "would refuse"]
        assert told[0]["flow"] == "127.0.0.4"
        assert told[0]["reason"].startswith("sync_")

    with_world(tell, sync={"mode": "report", "workers": 8, "per_account": 2, "per_device": 2})


@pytest.mark.parametrize("count", [0, 3])
def test_the_history_has_a_point_for_each_sample(count):
    async def tell(_, views):
        before = len(views.history.document()["points"])
        for _ in range(count):
            views.sample()
        document = views.history.document()
        assert len(document["points"]) == before + count
        assert all(len(point) == len(document["columns"]) for point in document["points"])

    with_world(tell)
