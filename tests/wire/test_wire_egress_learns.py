"""What the data path tells the way out: gateways of accepted pushers, and homeservers whose signed requests ours accepted."""

import json

import pytest
from clients import ask, get, post
from harness import OK, Answer

SET = b"/_matrix/client/v3/pushers/set"
TRANSACTION = b"/_matrix/federation/v1/event/%24x"
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}"
PUSHER = {
    "app_id": "a",
    "pushkey": "k",
    "kind": "http",
    "data": {"url": "https://push.example.org/_matrix/push/v1/notify"},
}
LISTENS = {"egress": {"listen": {"address": "127.0.0.1:0"}}}


async def answered(world, request, answer):
    line = await ask(world, request)
    await line.until_received(answer[-2:])
    line.transport.abort()


def set_pusher():
    body = json.dumps(PUSHER).encode()
    head = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (SET, len(body))
    return head + body


def signed(origin):
    return b'GET %b HTTP/1.1\r\nHost: a\r\nAuthorization: X-Matrix origin="%b",key="k",sig="s"\r\n\r\n' % (
        TRANSACTION,
        origin,
    )


@pytest.mark.parametrize(("answer", "known"), [(OK, 1), (REFUSED, 0)])
def test_the_gateway_of_a_pusher_is_known_once_the_homeserver_accepted_it(in_a_world, answer, known):
    async def tell(world):
        world.homeserver.begin((Answer(answer),))
        await answered(world, set_pusher(), answer)
        assert world.application.egress.statistics().gateways_known == known

    in_a_world(tell, **LISTENS)


@pytest.mark.parametrize(("answer", "known"), [(OK, 1), (REFUSED, 0)])
def test_a_homeserver_is_a_peer_once_ours_accepted_its_signed_request(in_a_world, answer, known):
    async def tell(world):
        world.homeserver.begin((Answer(answer),))
        await answered(world, signed(b"partner.example"), answer)
        assert world.application.egress.statistics().peers_known == known

    in_a_world(tell, **LISTENS)


def test_an_everyday_request_teaches_nothing(in_a_world):
    async def tell(world):
        world.homeserver.begin((Answer(OK), Answer(OK)))
        await answered(world, get(b"/_matrix/client/v3/joined_rooms"), OK)
        await answered(world, post(10), OK)
        figures = world.application.egress.statistics()
        assert (figures.gateways_known, figures.peers_known) == (0, 0)

    in_a_world(tell, **LISTENS)
