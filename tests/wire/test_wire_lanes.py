"""Workers on the wire: who gets one, who stands in line for how long, and what takes one that nobody waits for."""

import pytest
from clients import (
    GET,
    SHORT_S,
    THINKS,
    answer_request,
    ask,
    connect,
    field,
    flows_of,
    get,
    hints_of,
    post,
    requests_arrived,
    some_turns,
    target_of,
    whoami_of,
    with_body,
)
from harness import OK, Answer, refusal_in, until

# Four workers, of which a flow has one; flows are addresses of loopback.
FOUR = {"workers": 4, "share": 0.25}
A, B, C, D, E, F = (f"127.0.0.{number}" for number in range(11, 17))
VERSIONS = b"/_matrix/client/versions"
TRANSACTION = b"/_matrix/federation/v1/send/1"


def lanes(*, line=None, **requests):
    return {"lanes": {"requests": FOUR | requests} | ({} if line is None else {"line": line})}


async def fill(world, *addresses):
    """Let each of these have a worker; the requests arrive in this order."""
    world.homeserver.begin((THINKS,) * 50)
    for number, address in enumerate(addresses):
        await ask(world, get(b"/%d" % number), address)
        await requests_arrived(world, number + 1)


def arrived(world, first=0):
    return [target_of(request) for request in world.homeserver.script.requests[first:]]


async def refused(line):
    """Give status and reason of the refusal that comes, and its hint in seconds."""
    await line.until_received(b"}")
    answer = bytes(line.received)
    assert field(answer, b"Connection") is None, "the connection lives on"
    return *refusal_in(answer), hints_of(answer)


# Standing in line.


def test_a_flow_with_its_share_stands_in_line_while_others_run(in_a_world):
    async def tell(world):
        await fill(world, A)
        await ask(world, get(b"/a2"), A)
        await until(lambda: world.workers() == (1, 0, 1))
        await ask(world, get(b"/b1"), B)
        await requests_arrived(world, 2)
        assert world.workers() == (2, 0, 1)
        answer_request(world, 0, OK)
        await requests_arrived(world, 3)
        assert arrived(world) == [b"/0", b"/b1", b"/a2"]

    in_a_world(tell, **lanes())


def test_a_full_lane_serves_who_had_least_before_who_came_first(in_a_world):
    async def tell(world):
        await fill(world, A, B, C, D)
        for target in (b"/e1", b"/e2", b"/e3"):
            await ask(world, get(target), E)
        await ask(world, get(b"/f1"), F)
        await until(lambda: world.workers() == (4, 0, 4))
        for number in range(4):
            answer_request(world, number, OK)
            await some_turns()
        assert arrived(world, 4) == [b"/e1", b"/f1", b"/e2"]
        assert world.workers() == (3, 0, 1), "a third one needs three that are free"

    in_a_world(tell, **lanes(share=1.0))


def test_who_waits_too_long_is_told_when_to_come_back_and_the_homeserver_never_hears_of_it(in_a_world):
    async def tell(world):
        await fill(world, A)
        line = await ask(world, get(b"/late"), A)
        assert (await refused(line))[:2] == (429, "line_timeout")
        assert world.workers() == (1, 0, 0)
        answer_request(world, 0, OK)
        await world.until_nothing_is_left()
        line.received.clear()
        world.homeserver.script.answers[0] = Answer(OK)
        await line.send(GET)
        await line.until_received(OK)
        assert arrived(world) == [b"/0", b"/x"]

    in_a_world(tell, **lanes(max_wait_seconds=SHORT_S))


def test_a_full_line_refuses_the_newest_of_who_has_most_in_it(in_a_world):
    async def tell(world):
        await fill(world, A)
        await ask(world, get(b"/a2"), A)
        second = await ask(world, get(b"/a3"), A)
        await until(lambda: world.workers() == (1, 0, 2))
        third = await ask(world, get(b"/a4"), A)
        assert (await refused(third))[:2] == (429, "line_full")
        for address in (B, C, D):
            await ask(world, get(b"/" + address.encode()), address)
        await requests_arrived(world, 4)
        await ask(world, get(b"/e1"), E)
        assert (await refused(second))[:2] == (429, "line_full")
        assert world.workers() == (4, 0, 2)
        answer_request(world, 1, OK)
        await requests_arrived(world, 5)
        answer_request(world, 0, OK)
        await requests_arrived(world, 6)
        assert sorted(arrived(world, 4)) == [b"/a2", b"/e1"]

    in_a_world(tell, **lanes(line=2))


@pytest.mark.parametrize("how", ["resets", "ends"])
@pytest.mark.parametrize("request_", [get(b"/gone"), post(200_000, target=b"/gone")], ids=["head", "body"])
def test_a_request_in_line_whose_client_leaves_never_reaches_the_homeserver(in_a_world, request_, how):
    async def tell(world):
        await fill(world, A)
        line = await ask(world, request_, A)
        await until(lambda: world.workers() == (1, 0, 1))
        if how == "resets":
            line.reset()
        else:
            line.transport.write_eof()
        await until(lambda: world.workers() == (1, 0, 0))
        answer_request(world, 0, OK)
        await world.until_nothing_is_left()
        assert arrived(world) == [b"/0"]

    in_a_world(tell, **lanes())


def test_what_is_refused_in_line_is_refused_one_after_the_other_however_much_was_sent_ahead(in_a_world):
    async def tell(world):
        await fill(world, A)
        await ask(world, get(b"/a2"), A)
        await until(lambda: world.workers() == (1, 0, 1))
        line, connection = await connect(world, A)
        await line.send((GET + post(3)) * 150)  # 15 KiB, kept and served at once
        await until(lambda: line.received.count(b"line_full") == 300)
        assert not connection.kept
        assert world.workers() == (1, 0, 1)

    in_a_world(tell, **lanes(line=1))


# Workers that nobody waits for.


def test_a_held_worker_is_its_flows_until_the_homeserver_answers(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 9)
        line = await ask(world, get(b"/left"), A)
        await requests_arrived(world, 1)
        line.reset()
        await until(lambda: world.workers() == (0, 1, 0))
        await ask(world, get(b"/next"), A)
        await until(lambda: world.workers() == (0, 1, 1))
        await ask(world, get(b"/other"), B)
        await requests_arrived(world, 2)
        assert arrived(world) == [b"/left", b"/other"]
        answer_request(world, 0, OK)
        await requests_arrived(world, 3)
        assert arrived(world)[2] == b"/next"
        assert world.workers() == (2, 0, 0)

    in_a_world(tell, **lanes())


def test_our_deadline_frees_no_worker_before_the_homeserver_answers(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 9)
        line = await ask(world, get(b"/late"), A)
        assert (await refused(line))[:2] == (504, "upstream_timeout")
        assert world.workers() == (0, 1, 0)
        await ask(world, get(b"/next"), A)
        await until(lambda: world.workers() == (0, 1, 1))
        answer_request(world, 0, OK)
        await requests_arrived(world, 2)
        assert arrived(world) == [b"/late", b"/next"]

    in_a_world(tell, **lanes(deadline_seconds=SHORT_S))


def test_a_cut_connection_frees_its_worker(in_a_world):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 9)
        line = await ask(world, GET, A)
        await requests_arrived(world, 1)
        line.reset()
        await until(lambda: world.workers() == (0, 1, 0))
        world.homeserver.lines[0].reset()
        await world.until_nothing_is_left()

    in_a_world(tell)


def test_a_504_of_a_proxy_behind_us_holds_its_worker_and_not_its_connection(in_a_world):
    async def tell(world):
        timeout = with_body(504, b"{}")
        world.homeserver.begin((Answer(timeout), Answer(OK)))
        line = await ask(world, GET, A)
        await line.until_received(timeout)
        assert bytes(line.received) == timeout
        assert world.workers() == (0, 1, 0)
        assert world.pool_places() == (0, 1, 0, 0)
        await world.until_nothing_is_left()
        await line.send(GET)
        await line.until_received(timeout + OK)
        assert [request.connection for request in world.homeserver.script.requests] == [0, 0]

    in_a_world(tell, lanes={"max_hold_seconds": SHORT_S})


def test_a_504_of_media_says_that_there_is_none_yet_and_holds_nothing(in_a_world):
    async def tell(world):
        timeout = with_body(504, b"{}")
        world.homeserver.begin((Answer(timeout),))
        line = await ask(world, get(b"/_matrix/client/v1/media/download/b/m"), A)
        await line.until_received(timeout)
        await world.until_nothing_is_left()

    in_a_world(tell)


# Lanes apart.


def test_what_is_vital_is_served_while_every_worker_is_taken(in_a_world):
    async def tell(world):
        await fill(world, A, B, C, D)
        await ask(world, GET, E)
        await until(lambda: world.workers() == (4, 0, 1))
        world.homeserver.script.answers[0] = Answer(OK)
        line = await ask(world, get(VERSIONS), A)
        await line.until_received(OK)
        assert world.workers() == (4, 0, 1)

    in_a_world(tell, **lanes())


def test_federation_has_the_next_worker_while_it_has_none(in_a_world):
    async def tell(world):
        await fill(world, A, B, C, D)
        await ask(world, get(b"/e1"), E)
        await ask(world, get(TRANSACTION), F)
        await until(lambda: world.workers("federation") == (0, 0, 1))
        answer_request(world, 0, OK)
        await requests_arrived(world, 5)
        assert arrived(world, 4) == [TRANSACTION]

    in_a_world(tell, **lanes())


def test_accounts_share_and_not_their_devices_or_addresses(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((THINKS,) * 9)
        script.whoami = whoami_of({b"one": "@alice:a", b"two": "@alice:a", b"bob": "@bob:a"})
        rooms = b"/_matrix/client/v3/joined_rooms?"
        await ask(world, get(rooms + b"1", token=b"one"), A)
        await requests_arrived(world, 1)
        await ask(world, get(rooms + b"2", token=b"two"), B)
        await until(lambda: world.workers() == (1, 0, 1))
        await ask(world, get(rooms + b"3", token=b"bob"), A)
        await requests_arrived(world, 2)
        assert arrived(world) == [rooms + b"1", rooms + b"3"]
        assert flows_of(world) == {"@alice:a", "@bob:a"}

    in_a_world(tell, **lanes())


def test_an_exempt_account_has_what_is_free(in_a_world):
    async def tell(world):
        script = world.homeserver.begin((THINKS,) * 9)
        script.whoami = whoami_of({b"t": "@admin:a"})
        for _ in range(5):
            await ask(world, get(b"/_matrix/client/v3/joined_rooms", token=b"t"), A)
        await requests_arrived(world, 4)
        assert world.workers() == (4, 0, 1)

    in_a_world(tell, **lanes(), clients={"exempt": {"accounts": ["@admin:*"]}})


# Saying what would be.


@pytest.mark.parametrize("mode", [{"mode": "report"}, {"lanes": {"mode": "report"}}], ids=["all", "lanes"])
def test_report_mode_counts_what_it_would_do_and_holds_nobody_up(in_a_world, mode):
    async def tell(world):
        world.homeserver.begin((THINKS,) * 9)
        for _ in range(6):
            await ask(world, GET, A)
        await requests_arrived(world, 6)
        assert world.workers() == (6, 0, 0)
        gate = world.application.pipeline.workers
        assert gate.would_wait_total == 5
        assert not any(world.application.pipeline.recorder.reported_total.values())
        for number in range(6):
            answer_request(world, number, OK)
        await world.until_nothing_is_left()

    settings = lanes()
    settings["lanes"] |= mode.get("lanes", {})
    in_a_world(tell, **{**mode, **settings})


def test_nothing_of_a_lanes_wait_is_left_when_everybody_leaves_at_once(in_a_world):
    async def tell(world):
        await fill(world, A, B, C, D)
        lines = [await ask(world, post(9_000), address) for address in (A, B, C, D, E, F) for _ in range(3)]
        await until(lambda: world.workers() == (4, 0, 18))
        for line in lines:
            line.reset()
        await until(lambda: world.workers() == (4, 0, 0))
        await some_turns()
        assert len(world.homeserver.script.requests) == 4
        for number in range(4):
            answer_request(world, number, OK)
        await world.until_nothing_is_left()

    in_a_world(tell, **lanes())
