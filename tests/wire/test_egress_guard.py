"""Attempts to get out to where nobody may go. A listener on loopback is what must never be reached."""

import pytest
from egress_support import get, in_world, turns, until

PRIVATE = [
    *(
        "127.0.0.1",
        "127.1.2.3",
        "127.0.0.1.",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
    ),
    *("169.254.169.254", "168.63.129.16", "224.0.0.1", "255.255.255.255", "192.0.2.1"),
    *(
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
    ),
    *(
        "[64:ff9b:1::127.0.0.1]",
        "[2002:7f00:1::1]",
        "[2001:0:1::80ff:fffe]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
    ),
    "[0:0:0:0:0:FFFF:127.0.0.1]",
]
NO_HOSTS = [
    *(
        "2130706433",
        "0x7f000001",
        "0x7F.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "0",
        "0x0",
        "00",
    ),
    *(
        "127.0.0.1%00.example.org",
        "127.0.0.1%2eexample.org",
        "u@127.0.0.1",
        "[::1%lo]",
        "[::1%25lo]",
        "[fe80::1%1]",
        "a..b",
        "..",
        "-.",
    ),
    *("127.0.0.1\\.example.org", "localhost%00", "[127.0.0.1]", "[::1].example.org", "example.org:80:81"),
]


async def nothing_got_out(host):
    await turns()
    assert host.accepted == 0


@pytest.mark.parametrize("spelled", PRIVATE)
def test_an_address_that_is_not_public_is_refused(spelled):
    async def tell(world):
        host = await world.host()
        client = await world.client()
        client.send(get(spelled, host.port))
        assert (await client.answer())[:2] == ("address_refused", 403)
        assert await world.connect(spelled, host.port) == (None, "address_refused")
        await nothing_got_out(host)
        assert world.looked_up.total() == 0

    in_world(tell, allow=())


@pytest.mark.parametrize("spelled", NO_HOSTS)
def test_an_address_written_so_that_others_would_understand_it_is_no_host(spelled):
    async def tell(world):
        host = await world.host()
        client = await world.client()
        client.send(get(spelled, host.port))
        assert (await client.answer())[:2] in [("bad_target", 400), ("bad_host", 400), ("bad_field", 400)]
        assert await world.connect(spelled, host.port) == (None, "bad_target")
        await nothing_got_out(host)
        assert world.looked_up.total() == 0

    in_world(tell)  # even with loopback allowed


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1%lo", "64:ff9b::7f00:1", "169.254.169.254", "0.0.0.0"],
)
def test_a_name_that_resolves_to_one_is_refused(address):
    async def tell(world):
        host = await world.host()
        world.names["innocent.example"] = [address]
        assert await world.connect("innocent.example", host.port) == (None, "address_refused")
        client = await world.client()
        client.send(get("innocent.example", host.port))
        assert (await client.answer())[:2] == ("address_refused", 403)
        await nothing_got_out(host)

    in_world(tell, allow=())


def test_a_name_with_a_public_and_a_private_address_leads_to_the_public_one_only():
    async def tell(world):
        private, public = await world.hosts_at_one_port("127.0.0.1", "127.0.0.2")
        world.names["mixed.example"] = ["127.0.0.1", "127.0.0.2", "::1"]
        client, _ = await world.connect("mixed.example", private.port)
        assert client is not None
        await until(lambda: public.accepted == 1)
        await nothing_got_out(private)
        public.stop()
        assert await world.connect("mixed.example", private.port) == (None, "host_unreachable")
        await nothing_got_out(private)

    in_world(tell, allow=("127.0.0.2",))


def test_a_name_that_changes_between_check_and_connect_changes_nothing():
    async def tell(world):
        private, public = await world.hosts_at_one_port("127.0.0.1", "127.0.0.2")
        answers = iter([["127.0.0.2"], *[["127.0.0.1"]] * 10])

        world.answer_for = lambda _: next(answers)
        client = await world.client()
        client.send(get("rebinds.example", private.port))
        assert (await client.answer())[1] == 200
        assert (len(public.requests), world.looked_up["rebinds.example"]) == (1, 1)
        client.send(get("rebinds.example", private.port))
        assert (await client.answer())[1] == 200, (
            "the connection to the address that was checked is used again"
        )
        await world.later(20)
        client.send(get("rebinds.example", private.port))
        assert (await client.answer())[:2] == ("address_refused", 403)
        await nothing_got_out(private)

    in_world(tell, allow=("127.0.0.2",))


def test_a_redirect_is_the_homeservers_to_follow_and_is_checked_anew():
    async def tell(world):
        public = await world.host(
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:81/\r\nContent-Length: 0\r\n\r\n",
            address="127.0.0.2",
        )
        world.names["a.example"] = ["127.0.0.2"]
        client = await world.client()
        client.send(get("a.example", public.port))
        assert (await client.answer())[1] == 302
        client.send(get("127.0.0.1", 81))
        assert (await client.answer())[:2] == ("address_refused", 403)

    in_world(tell, allow=("127.0.0.2",))


@pytest.mark.parametrize("port", [22, 25, 53, 110, 6379, 11211])
def test_a_port_of_another_protocol_is_refused(port):
    async def tell(world):
        assert await world.connect("a.example", port) == (None, "port_refused")
        client = await world.client()
        client.send(get("a.example", port))
        assert (await client.answer())[:2] == ("port_refused", 403)
        assert world.looked_up.total() == 0

    in_world(tell)


def test_the_way_out_is_no_way_back_in():
    async def tell(world):
        assert await world.connect("127.0.0.1", world.port) == (None, "address_refused")
        assert await world.connect("us.example", world.port) == (None, "address_refused")
        assert await world.connect("127.0.0.9", world.port) == (None, "address_refused")

    in_world(tell)


@pytest.mark.parametrize("network", ["127.0.0.1", "127.0.0.0/8", "::ffff:127.0.0.1", "::ffff:127.0.0.0/104"])
def test_a_client_is_known_however_its_network_is_written(network):
    async def tell(world):
        host = await world.host()
        client = await world.client("127.0.0.1")
        client.send(get("a.example", host.port))
        assert (await client.answer())[1] == 200

    in_world(tell, clients=(network,))


def test_only_the_clients_of_the_way_out_are_served():
    async def tell(world):
        host = await world.host()
        stranger = await world.client("127.0.0.2")
        stranger.send(get("a.example", host.port))
        assert await stranger.ended() == b""
        await nothing_got_out(host)
        assert world.egress.statistics().strangers_total == 1
        client = await world.client("127.0.0.1")
        client.send(get("a.example", host.port))
        assert (await client.answer())[1] == 200

    in_world(tell, clients=("127.0.0.1",))


def test_clients_and_networks_can_be_taken_away_while_it_runs():
    async def tell(world):
        host = await world.host()
        client = await world.client()
        client.send(get("a.example", host.port))
        assert (await client.answer())[1] == 200
        world.egress.reload(world.egress.settings.model_copy(update={"allow": ()}))
        client.send(get("a.example", host.port))
        assert (await client.answer())[:2] == ("address_refused", 403)
        world.egress.reload(world.egress.settings.model_copy(update={"clients": ("192.0.2.1",)}))
        assert await (await world.client()).ended() == b""

    in_world(tell)


def test_a_gateway_of_a_private_address_is_declined_and_its_breaker_learns_nothing():
    async def tell(world):
        world.names["inside.example"] = ["10.0.0.1"]
        world.egress.learn("inside.example", 443)
        for _ in range(5):
            assert await world.connect("inside.example", 443) == (None, "address_refused")
        assert world.failing == {}

    in_world(tell)


def test_at_the_limit_of_connections_the_idlest_tunnel_makes_room():
    async def tell(world):
        host = await world.host()
        first, _ = await world.connect("a.example", host.port)
        second, _ = await world.connect("a.example", host.port)
        first.send(b"GET / HTTP/1.1\r\n\r\n")
        await first.until(b"}")
        third, _ = await world.connect("a.example", host.port)
        assert third is not None
        assert await second.ended() == b""
        first.send(b"GET / HTTP/1.1\r\n\r\n")
        await first.until(b"}")
        assert len(world.egress.connections) == 2

    in_world(tell, max_connections=2)
