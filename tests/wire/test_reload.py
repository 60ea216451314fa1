"""Settings read again while requests are under way."""

import asyncio

import pytest
import yaml
from harness import OK, Answer, World, until

from proxy.observability.snapshot import SettingsFigures

GET = b"GET /_matrix/client/v3/rooms/!r:a/state HTTP/1.1\r\nHost: a\r\n\r\n"
HELD = Answer(b"")


@pytest.fixture
def reloading(tmp_path, loop):
    """Run a world whose settings stand in a file; `tell(world, write)` gets what writes and reads them again."""

    def run(tell, **settings):
        async def whole():
            lines = []

            async def connect():
                lines.append(await World.connect(world))
                return lines[-1]

            path = tmp_path / "config.yaml"
            world = World({"homeserver": {"profile": "generic"}, **settings}, path=path)
            await world.start()
            world.connect = connect
            try:

                def write(changes=None, *, text=None):
                    tree = world.application._settings.model_dump(mode="json")
                    for key, value in (changes or {}).items():
                        *above, last = key.split(".")
                        section = tree
                        for name in above:
                            section = section[name]
                        section[last] = value
                    path.write_text(text if text is not None else yaml.safe_dump(tree))
                    return world.application.reload()

                async with asyncio.timeout(20):
                    await tell(world, write)
                for line in lines:
                    line.transport.abort()
                await world.calm()
            finally:
                await world.stop()
            assert world.faults == []

        loop.run_until_complete(whole())

    return run


def shown(world):
    """What the status says about the settings."""
    return world.application.snapshot().settings


def share(world):
    return world.application.pipeline.workers.share.statistics(0.0)


def lane(world, name):
    return next(lane for lane in share(world).lanes if lane.name == name)


def test_workers_given_out_before_a_reload_come_back_after_it(reloading):
    async def tell(world, write):
        world.homeserver.begin((HELD,))
        line = await world.connect()
        await line.send(GET)
        await until(lambda: len(world.homeserver.script.requests) == 1)
        reloaded = write({"lanes.requests.workers": 8})
        assert (reloaded.changed, reloaded.needs_restart, reloaded.mistakes) == (
            ("lanes.requests.workers",),
            (),
            (),
        )
        assert (lane(world, "requests").workers, lane(world, "requests").running) == (8, 1)
        world.homeserver.lines[0].transport.write(OK)
        await line.until_received(OK)
        assert lane(world, "requests").running == 0

    reloading(tell)


def test_a_profile_with_other_lanes_takes_over_who_stands_in_line(reloading):
    async def tell(world, write):
        world.homeserver.begin((HELD,) * 5)
        lines = [await world.connect() for _ in range(5)]
        for line in lines:
            await line.send(GET)
        await until(lambda: lane(world, "requests").waiting == 4)  # one address has one of four
        write({"homeserver.profile": "synapse", "lanes.requests.workers": "profile"})
        await until(lambda: len(world.homeserver.script.requests) == 5)
        assert lane(world, "requests").running == 4  # and one among the lanes of before
        assert lane(world, "requests").waiting == 0
        for connection in world.homeserver.lines:
            connection.transport.write(OK)
        for line in lines:
            await line.until_received(OK)
        assert lane(world, "requests").running == 0

    reloading(tell, lanes={"requests": {"workers": 4}})


def test_a_wrong_file_changes_nothing_and_says_what_is_wrong(reloading):
    async def tell(world, write):
        write({"admin.listen": "127.0.0.1:1"})
        before = world.application._settings
        reloaded = write(text="lanes:\n  requests: {worker: 3}")
        mistakes = ("line 2: lanes.requests.worker: is not a known key (did you mean workers?)",)
        assert reloaded.mistakes == mistakes
        assert world.application._settings is before
        assert shown(world) == SettingsFigures(shown(world).read_at, ("admin.listen",), mistakes)
        again = write({"mode": "report"})
        assert shown(world) == SettingsFigures(shown(world).read_at, again.needs_restart, ())

    reloading(tell)


def test_what_cannot_change_while_running_is_named(reloading):
    async def tell(world, write):
        url = world.application._settings.homeserver.url
        reloaded = write({"homeserver.url": "http://127.0.0.1:1", "connections.head_seconds": 7})
        assert reloaded.needs_restart == ("homeserver.url",)
        assert world.application.listener.settings.head_seconds == 7
        reloaded = write({"connections.head_seconds": 8})
        assert reloaded.changed == ("connections.head_seconds",)
        assert reloaded.needs_restart == ("homeserver.url",)  # still
        assert write({"homeserver.url": url}).needs_restart == ()

    reloading(tell)


def test_a_profile_that_was_set_is_kept_whatever_the_homeserver_says_later(reloading):
    async def tell(world, write):
        world.homeserver.begin((Answer(OK),) * 2)
        assert write({"homeserver.profile": "auto"}).mistakes == ()
        write({"homeserver.profile": "synapse"})
        await world.application._detect_profile()
        assert world.application.profile == "synapse"

    reloading(tell)


def test_look_ups_take_another_deadline(reloading):
    async def tell(world, write):
        write({"identity.timeout_seconds": 1.5})
        assert world.application.pipeline.identity.questions.timeout_s == 1.5

    reloading(tell)


def test_a_way_out_that_is_turned_on_or_off_waits_for_a_restart_and_is_named(reloading):
    async def tell(world, write):
        application = world.application
        fit = application._fit
        for listen in ({"address": "127.0.0.1:0"}, {"address": "127.0.0.1:1"}, None):
            reloaded = write({"egress.listen": listen})
            assert reloaded.needs_restart == (() if listen is None else ("egress.listen",))
            assert application.snapshot().egress is None
            assert application._fit == fit  # no descriptors are set aside for it
            assert application.pipeline.lessons.learn_peer != application.egress.federation_peer

    reloading(tell)


def test_what_does_not_fit_the_limit_of_open_files_changes_nothing(reloading):
    async def tell(world, write):
        application = world.application

        def holds():
            statistics = application.pool.statistics()
            return (
                application._settings, application._fit, application.profile, application.pipeline.figures,
                application.snapshot().connections_limit, statistics.limit, lane(world, "requests").workers,
            )  # fmt: skip

        before = holds()
        application._descriptor_limit = 4_000
        reloaded = write(
            {"lanes.requests.workers": 4_096, "connections.max": 17, "homeserver.profile": "synapse"}
        )
        assert "the limit of open files, 4000, is too small" in reloaded.mistakes[0]
        assert holds() == before

    reloading(tell)


def test_a_reload_to_report_lets_everybody_pass(reloading):
    async def tell(world, write):
        world.homeserver.begin((HELD, HELD))
        first, second, third = [await world.connect() for _ in range(3)]
        await first.send(GET)
        await second.send(GET)
        await until(lambda: lane(world, "requests").waiting == 1)
        write({"mode": "report"})
        await third.send(GET)
        await until(lambda: len(world.homeserver.script.requests) == 2)
        assert world.application.pipeline.workers.would_wait_total == 1

    reloading(tell, lanes={"requests": {"workers": 4}})


def test_the_file_of_a_reload_is_the_one_that_was_started_with(reloading, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.yaml").write_text("connections: {max_requests: 5}")
    monkeypatch.chdir(elsewhere)

    async def tell(world, write):
        assert write({"connections.max_requests": 7}).changed == ("connections.max_requests",)
        assert world.application.listener.max_requests == 7

    reloading(tell)


def test_a_file_that_changed_is_read_again_and_nothing_without_a_file(reloading, in_a_world):
    async def with_a_file(world, write):
        write()
        path = world.application._path
        path.write_text(path.read_text() + "\n# a remark\n")
        before = shown(world)
        world.application._watched_at = -1e9  # two seconds are over
        await until(lambda: shown(world).read_at > before.read_at)
        assert shown(world).mistakes == ()

    async def without(world):
        assert world.application.reload().mistakes == ("there is no settings file to read again",)

    reloading(with_a_file)
    in_a_world(without)


def test_other_trusted_proxies_and_another_limit_of_connections_hold_for_who_is_connected(reloading):
    async def tell(world, write):
        script = world.homeserver.begin((Answer(OK),))
        line = await world.connect()
        await until(lambda: len(world.application.listener.connections) == 1)
        write({"clients.trusted_proxies": ["127.0.0.0/8"]})
        await line.send(GET[:-2] + b"X-Forwarded-For: 192.0.2.7\r\n\r\n")
        await line.until_received(OK)
        assert b"\r\nX-Forwarded-For: 192.0.2.7\r\n" in script.requests[0].data
        write({"connections.max": 1, "clients.trusted_proxies": ["127.0.0.0/8"]})
        other = await world.connect()
        await other.until_ended()

    reloading(tell)


def test_a_reload_warns_of_what_is_right_and_dangerous(reloading, capsys):
    async def tell(_, write):
        reloaded = write({"clients.trusted_proxies": ["0.0.0.0/0"]})
        assert reloaded.changed == ("clients.trusted_proxies",)
        told = capsys.readouterr()
        assert "clients.trusted_proxies[0]: 0.0.0.0/0 believes every client" in told.out + told.err

    reloading(tell)
