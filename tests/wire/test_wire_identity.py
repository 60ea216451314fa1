"""Who asks, as the homeserver says it: look-ups on the wire, and what a request goes on as."""

import re

import pytest
import structlog
from clients import (
    SHORT_S,
    THINKS,
    answer_lookup,
    answer_request,
    ask,
    flows_of,
    get,
    lookups_arrived,
    post,
    requests_arrived,
    some_turns,
    target_of,
    whoami_of,
    with_body,
)
from harness import OK, Answer, until

ROOMS = b"/_matrix/client/v3/joined_rooms"
ALICE = b'{"user_id":"@alice:a","device_id":"D"}'
ADDRESS = "127.0.0.1"


def begin(world, answers, whoami=None):
    script = world.homeserver.begin(answers)
    script.whoami = whoami
    return script


async def served(world, request, answer=OK):
    """Ask, and wait for the answer."""
    line = await ask(world, request)
    await line.until_received(answer[-8:])
    assert bytes(line.received) == answer
    line.transport.abort()


def test_one_look_up_is_made_for_many_requests_of_one_token(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),) * 9)
        lines = [await ask(world, get(ROOMS, token=b"t")) for _ in range(8)]
        await lookups_arrived(world, 1)
        await until(lambda: world.identities.statistics().waiting == 8)
        assert (len(script.lookups), script.requests) == (1, [])
        assert world.workers() == (0, 0, 0), "who waits to be known holds no worker"
        answer_lookup(world, 0, with_body(200, ALICE))
        for line in lines:
            await line.until_received(OK)
        assert flows_of(world) == {"@alice:a"}
        await served(world, get(ROOMS, token=b"t"))
        assert len(script.lookups) == 1

    in_a_world(tell)


def test_a_look_up_says_whose_request_it_is_for_and_nothing_else_of_it(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),), whoami_of({b"t": "@alice:a"}))
        await served(world, get(ROOMS + b"?x=y", token=b"t", fields=b"Cookie: c\r\nUser-Agent: u\r\n"))
        [lookup] = script.lookups
        head = re.sub(rb"127\.0\.0\.1:[0-9]+", b"<homeserver>", lookup.data)
        assert head == (
            b"GET /_matrix/client/v3/account/whoami HTTP/1.1\r\nHost: <homeserver>\r\nAuthorization: Bearer t\r\n"
            b"Accept: application/json\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\r\n"
        )

    in_a_world(tell)


@pytest.mark.parametrize("status", [401, 403, 404, 500, 502, 429])
def test_who_is_not_confirmed_counts_as_the_address_and_the_request_goes_on(in_a_world, status):
    async def tell(world):
        script = begin(world, (Answer(OK),) * 2, whoami_of({}, unknown=status))
        await served(world, get(ROOMS, token=b"t"))
        assert b"\r\nAuthorization: Bearer t\r\n" in script.requests[0].data
        await served(world, get(ROOMS, token=b"t"))
        assert len(script.lookups) == 1, "what was said lately is not asked again"
        assert flows_of(world) == {ADDRESS}

    in_a_world(tell)


@pytest.mark.parametrize("then", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"nonsense\r\n\r\n"])
def test_a_look_up_that_breaks_off_confirms_nobody(in_a_world, then):
    async def tell(world):
        begin(world, (Answer(OK),))
        line = await ask(world, get(ROOMS, token=b"t"))
        await lookups_arrived(world, 1)
        answer_lookup(world, 0, then)
        await some_turns()
        world.homeserver.lines[0].transport.close()
        await line.until_received(OK)
        assert flows_of(world) == {ADDRESS}
        await world.until_nothing_is_left()

    in_a_world(tell)


def test_a_request_waits_no_longer_than_may_be_for_its_look_up(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),) * 2)
        await served(world, get(ROOMS, token=b"t"))
        assert len(script.lookups) == 1
        assert flows_of(world) == {ADDRESS}
        await world.until_nothing_is_left()

    in_a_world(tell, identity={"timeout_seconds": SHORT_S})


def test_nor_for_one_that_has_not_begun(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),) * 6)
        lines = [await ask(world, get(ROOMS, token=b"%d" % number)) for number in range(6)]
        for line in lines:
            await line.until_received(OK)
        assert len(script.lookups) <= 4, "two at once, and two more when these had timed out"
        assert flows_of(world) == {ADDRESS}
        await world.until_nothing_is_left()

    in_a_world(tell, identity={"timeout_seconds": SHORT_S})


@pytest.mark.parametrize("how", ["resets", "ends"])
def test_who_leaves_while_being_looked_up_never_reaches_the_homeserver(in_a_world, how):
    async def tell(world):
        script = begin(world, (Answer(OK),))
        line = await ask(world, get(ROOMS, token=b"t"))
        await lookups_arrived(world, 1)
        if how == "resets":
            line.reset()
        else:
            line.transport.write_eof()
        await until(lambda: world.identities.statistics().waiting == 0)
        answer_lookup(world, 0, with_body(200, ALICE))
        await world.until_nothing_is_left()
        assert script.requests == []
        await served(world, get(ROOMS, token=b"t"))
        assert len(script.lookups) == 1, "what the look-up found is kept"

    in_a_world(tell)


def test_a_request_that_was_whole_when_its_client_ended_is_served_once_it_is_known(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),))
        line = await ask(world, post(5, target=ROOMS, fields=b"Authorization: Bearer t\r\n"))
        await lookups_arrived(world, 1)
        line.transport.write_eof()
        await some_turns()
        answer_lookup(world, 0, with_body(200, ALICE))
        assert (await line.until_ended()).startswith(b"HTTP/1.1 200 OK\r\n")
        assert script.requests[0].data.endswith(b"\r\n\r\nyyyyy")

    in_a_world(tell)


def test_a_body_is_not_read_before_it_is_known_who_sends_it(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),))
        request = post(5, target=ROOMS, fields=b"Authorization: Bearer t\r\nExpect: 100-continue\r\n")
        line = await ask(world, request[:-5])
        await lookups_arrived(world, 1)
        await some_turns()
        assert bytes(line.received) == b""
        answer_lookup(world, 0, with_body(200, ALICE))
        await line.until_received(b"HTTP/1.1 100 Continue\r\n\r\n")
        await line.send(b"yyyyy")
        await line.until_received(OK)
        assert script.requests[0].data.endswith(b"\r\n\r\nyyyyy")

    in_a_world(tell)


def test_a_token_in_the_query_is_looked_up_and_goes_on_where_it_was(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),), whoami_of({b"t": "@alice:a"}))
        await served(world, get(ROOMS + b"?access_token=t"))
        assert target_of(script.requests[0]) == ROOMS + b"?access_token=t"
        assert b"\r\nAuthorization: Bearer t\r\n" in script.lookups[0].data
        assert flows_of(world) == {"@alice:a"}

    in_a_world(tell)


TWO_TOKENS = {
    "in both places": get(ROOMS + b"?access_token=t", token=b"t"),
    "two headers": get(ROOMS, token=b"t", fields=b"Authorization: Bearer u\r\n"),
}
NO_TOKENS = {
    "none": get(ROOMS),
    "an empty one": get(ROOMS, token=b""),
    "one of control bytes": get(ROOMS + b"?access_token=%00%0d%0a"),
    "one of more than 4 KiB": get(ROOMS, token=b"t" * 4097),
}


@pytest.mark.parametrize("request_", (TWO_TOKENS | NO_TOKENS).values(), ids=TWO_TOKENS | NO_TOKENS)
def test_two_tokens_or_none_that_can_be_one_cost_no_look_up(in_a_world, request_):
    async def tell(world):
        script = begin(world, (Answer(OK),), whoami_of({b"t": "@alice:a", b"u": "@alice:a"}))
        await served(world, request_)
        assert script.lookups == []
        assert flows_of(world) == {ADDRESS}

    in_a_world(tell)


@pytest.mark.parametrize(
    "target",
    [b"/_matrix/client/versions", b"/_matrix/federation/v1/send/1", b"/x", b"/.well-known/matrix/client"],
)
def test_what_takes_no_token_costs_no_look_up(in_a_world, target):
    async def tell(world):
        script = begin(world, (Answer(OK),), whoami_of({b"t": "@alice:a"}))
        await served(world, get(target, token=b"t"))
        assert script.lookups == []

    in_a_world(tell)


UNAUTHORIZED = with_body(401, b"{}")
KILLED = {
    "a 401": (get(ROOMS, token=b"t"), UNAUTHORIZED),
    "a logout": (post(2, target=b"/_matrix/client/v3/logout", fields=b"Authorization: Bearer t\r\n"), OK),
    "a logout everywhere": (post(2, target=b"/_matrix/client/v3/logout/all", fields=b"Authorization: Bearer t\r\n"), OK),
    "a deleted device": (get(b"/_matrix/client/v3/devices/D", token=b"t").replace(b"GET", b"DELETE"), OK),
    "a new password": (post(2, target=b"/_matrix/client/v3/account/password", fields=b"Authorization: Bearer t\r\n"), OK),
    "a refresh": (post(2, target=b"/_matrix/client/v3/refresh", fields=b"Authorization: Bearer t\r\n"), OK),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "answer"), KILLED.values(), ids=KILLED)
def test_what_ends_a_token_makes_it_looked_up_again(in_a_world, request_, answer):
    async def tell(world):
        script = begin(world, (Answer(OK), Answer(answer), Answer(OK)), whoami_of({b"t": "@alice:a"}))
        await served(world, get(ROOMS, token=b"t"))
        assert len(script.lookups) == 1
        await served(world, request_, answer)
        assert len(script.lookups) == 1
        await served(world, get(ROOMS, token=b"t"))
        assert len(script.lookups) == 2

    in_a_world(tell)


@pytest.mark.parametrize("answer", [with_body(403, b"{}"), with_body(500, b"{}"), with_body(429, b"{}")])
def test_a_logout_that_failed_ends_nothing(in_a_world, answer):
    async def tell(world):
        script = begin(world, (Answer(OK), Answer(answer), Answer(OK)), whoami_of({b"t": "@alice:a"}))
        await served(world, get(ROOMS, token=b"t"))
        await served(world, KILLED["a logout"][0], answer)
        await served(world, get(ROOMS, token=b"t"))
        assert len(script.lookups) == 1

    in_a_world(tell)


def test_no_more_than_two_look_ups_of_an_address_are_made_at_once(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),) * 5)
        lines = [await ask(world, get(ROOMS, token=b"%d" % number)) for number in range(4)]
        other = await ask(world, get(ROOMS, token=b"other"), "127.0.0.9")
        await lookups_arrived(world, 3)
        await some_turns()
        asked = [re.search(rb"Bearer ([^\r]*)", lookup.data)[1] for lookup in script.lookups]
        assert sorted(asked) == [b"0", b"1", b"other"]
        answer_lookup(world, asked.index(b"0"), with_body(401, b"{}"))
        await lookups_arrived(world, 4)
        assert b"Bearer 2\r\n" in script.lookups[3].data
        for number in range(1, 4):
            answer_lookup(world, number, with_body(401, b"{}"))
        await lookups_arrived(world, 5)
        answer_lookup(world, 4, with_body(401, b"{}"))
        for line in [*lines, other]:
            await line.until_received(OK)
        await world.until_nothing_is_left()

    in_a_world(tell)


def test_an_appservice_is_one_flow_with_its_ghosts_and_has_a_lane_of_its_own(in_a_world):
    async def tell(world):
        script = begin(world, (THINKS,) * 3, whoami_of({b"t": lambda ghost: ghost or "@bot:a"}))
        for ghost in (b"%40_a:a", b"%40_b:a", b"%40_c:a"):
            await ask(world, get(ROOMS + b"?user_id=" + ghost, token=b"t"))
        await requests_arrived(world, 2)
        assert len(script.lookups) == 2, "once with the first masquerade, once without"
        assert [target_of(lookup).partition(b"?")[2] for lookup in script.lookups] == [
            b"user_id=%40_a:a",
            b"",
        ]
        assert world.workers("appservices") == (2, 0, 1), "of four, half of what is free"
        assert world.workers("requests") == (0, 0, 0)
        assert flows_of(world) == {"appservice @bot:a"}
        for number in range(3):
            await requests_arrived(world, number + 1)
            answer_request(world, number, OK)
        await world.until_nothing_is_left()
        assert len(script.lookups) == 2

    in_a_world(tell)


def test_a_user_that_asks_to_be_taken_for_another_stays_who_it_is(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),) * 3, whoami_of({b"t": "@alice:a"}))
        for other in (b"%40bob:a", b"%40carol:a", b"%40dave:a"):
            await served(world, get(ROOMS + b"?user_id=" + other, token=b"t"))
        assert len(script.lookups) == 2
        assert flows_of(world) == {"@alice:a"}

    in_a_world(tell)


# By address: what proxies in front say.

TRUSTED = {"trusted_proxies": ["127.0.0.0/8"]}


def forwarded_of(request):
    names = rb"(X-Forwarded-For|X-Forwarded-Proto|Forwarded|X-Real-IP)"
    return re.findall(rb"\r\n" + names + rb": ([^\r]*)", request.data)


@pytest.mark.parametrize(
    ("said", "client"),
    [
        (b"203.0.113.9", b"203.0.113.9"),
        (b"198.51.100.7, 203.0.113.9", b"203.0.113.9"),
        (b"198.51.100.7, 203.0.113.9, 127.0.0.3", b"203.0.113.9"),
        (b"198.51.100.7, nonsense", b"127.0.0.1"),
        (b"2001:db8::7", b"2001:db8::7"),
    ],
)
def test_the_client_that_a_trusted_proxy_names_is_the_one_the_homeserver_hears_of(in_a_world, said, client):
    async def tell(world):
        script = begin(world, (Answer(OK),))
        fields = (
            b"X-Forwarded-For: "
            + said
            + b"\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.1.1.1\r\nX-Real-IP: 1.1.1.1\r\n"
        )
        await served(world, get(fields=fields))
        assert forwarded_of(script.requests[0]) == [
            (b"X-Forwarded-For", client),
            (b"X-Forwarded-Proto", b"https"),
        ]
        key = "2001:db8::/64" if b":" in client else client.decode()
        assert flows_of(world) == {key}

    in_a_world(tell, clients=TRUSTED)


def test_the_field_forwarded_is_read_where_it_is_the_one(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),))
        fields = b'X-Forwarded-For: 1.1.1.1\r\nForwarded: for=1.1.1.1, for="203.0.113.9:99";proto=https\r\n'
        await served(world, get(fields=fields))
        assert forwarded_of(script.requests[0]) == [
            (b"X-Forwarded-For", b"203.0.113.9"), (b"X-Forwarded-Proto", b"https")
        ]  # fmt: skip

    in_a_world(tell, clients=TRUSTED | {"forwarded_header": "Forwarded"})


def test_a_peer_nearby_that_forwards_untrusted_is_told_of_once_a_minute_and_not_believed(in_a_world):
    async def tell(world):
        script = begin(world, (Answer(OK),) * 3)
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await served(world, get(fields=b"X-Forwarded-For: 203.0.113.9\r\n"))
        warnings = [entry for entry in logs if entry["log_level"] == "warning"]
        assert len(warnings) == 1
        assert "clients.trusted_proxies" in warnings[0]["event"]
        assert warnings[0]["peer"] == "127.0.0.1"
        assert forwarded_of(script.requests[0])[0] == (b"X-Forwarded-For", b"127.0.0.1")

    in_a_world(tell)


def test_clients_behind_a_trusted_proxy_are_told_apart_on_one_connection(in_a_world):
    async def tell(world):
        begin(world, (Answer(OK),) * 2)
        line = await ask(world, get(fields=b"X-Forwarded-For: 203.0.113.1\r\n"))
        await line.until_received(OK)
        await line.send(get(fields=b"X-Forwarded-For: 203.0.113.2\r\n"))
        await line.until_received(OK + OK)
        assert flows_of(world) == {"203.0.113.1", "203.0.113.2"}

    in_a_world(tell, clients=TRUSTED)
