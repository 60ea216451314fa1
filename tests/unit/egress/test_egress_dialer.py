import asyncio
import ipaddress
import os
import resource
import socket
import time

import pytest
import uvloop

import proxy.egress.dialer
from proxy.egress.dialer import Dialer, DialError, address_key
from proxy.egress.reasons import EgressReason
from proxy.egress.resolver import Resolver
from proxy.policies.address_guard import AddressGuard


def dialing(tell, names=None, allow=("127.0.0.0/8", "::1/128"), connect_timeout_s=2.0):
    """Run `tell(dialer, asked)`; `names` maps a host to what each look-up in turn gives."""
    asked = []

    def lookup(host):
        asked.append(host)
        answers = (names or {}).get(host)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def whole():
        loop = asyncio.get_running_loop()
        resolver = Resolver(loop, time.monotonic, lookup, 2.0)
        guard = AddressGuard(ipaddress.ip_network(text) for text in allow)
        await tell(Dialer(loop, resolver, guard, connect_timeout_s), asked)

    uvloop.run(whole())


def descriptors():
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  (numbers, no paths)


def listening(address="127.0.0.1", port=0):
    return socket.create_server((address, port))


async def connected(dialer, addresses, port):
    transport, address = await dialer.connect(addresses, port, asyncio.Protocol)
    peer = transport.get_extra_info("peername")
    transport.abort()
    await asyncio.sleep(0)
    return address, peer


def test_the_address_that_was_checked_is_the_one_connected_to():
    with listening() as server:
        port = server.getsockname()[1]

        async def tell(dialer, asked):
            addresses = await dialer.addresses("rebinds.example", port)
            assert addresses == ["127.0.0.1"]
            assert await connected(dialer, addresses, port) == ("127.0.0.1", ("127.0.0.1", port))
            assert asked == ["rebinds.example"], "one look-up a dial, and none to connect"

        dialing(tell, {"rebinds.example": [["127.0.0.1"], ["10.0.0.1"]]})


def test_a_name_that_turns_private_is_refused_at_the_next_dial():
    async def tell(dialer, _):
        assert await dialer.addresses("rebinds.example", 80) == ["198.51.100.1"]
        dialer._resolver._kept.clear()
        with pytest.raises(DialError) as refused:
            await dialer.addresses("rebinds.example", 80)
        assert refused.value.reason is EgressReason.ADDRESS_REFUSED

    dialing(tell, {"rebinds.example": [["198.51.100.1"], ["10.0.0.1"]]}, allow=("198.51.100.0/24",))


def test_of_several_addresses_only_the_allowed_are_tried():
    async def tell(dialer, _):
        assert await dialer.addresses("mixed.example", 80) == ["127.0.0.1", "::1", "127.0.0.2"]

    dialing(
        tell,
        {
            "mixed.example": [
                [
                    "10.0.0.1",
                    "127.0.0.1",
                    "127.0.0.2",
                    "fe80::1",
                    "::1",
                    "169.254.169.254",
                    "::ffff:127.0.0.1",
                ]
            ]
        },
    )


def test_at_most_eight_addresses_are_tried():
    async def tell(dialer, _):
        assert len(await dialer.addresses("many.example", 80)) == 8

    dialing(tell, {"many.example": [[f"127.0.0.{number}" for number in range(1, 100)]]})


def test_an_address_that_refuses_gives_way_to_the_next_at_once(monkeypatch):
    monkeypatch.setattr(proxy.egress.dialer, "_NEXT_AFTER_S", 3600.0)
    with listening("127.0.0.3") as server:
        port = server.getsockname()[1]

        async def tell(dialer, _):
            address, _peer = await connected(dialer, ["::1", "127.0.0.2", "127.0.0.3"], port)
            assert address == "127.0.0.3"

        dialing(tell)


def full_backlog():
    """A listener that lets nobody in any more: connects to it hang."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(0)
    stuck = []
    for _ in range(4):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(server.getsockname())
        stuck.append(one)
    return server, stuck


def test_an_address_that_hangs_gives_way_after_a_quarter_of_a_second():
    server, stuck = full_backlog()
    port = server.getsockname()[1]
    with server, listening("127.0.0.2", port):

        async def tell(dialer, _):
            began = time.monotonic()
            address, _peer = await connected(dialer, ["127.0.0.1", "127.0.0.2"], port)
            assert address == "127.0.0.2"
            assert time.monotonic() - began > 0.2, "the first has that long, and not all of the timeout"

        dialing(tell, connect_timeout_s=100.0)
    for one in stuck:
        one.close()


def test_a_want_of_descriptors_is_not_the_hosts_fault():
    async def tell(dialer, _):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.socket() as lowest_free:
            number = lowest_free.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
        try:
            with pytest.raises(DialError) as failed:
                await dialer.connect(["127.0.0.1", "127.0.0.2"], 1, asyncio.Protocol)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert failed.value.reason is EgressReason.NO_DESCRIPTORS

    dialing(tell)


def test_what_hangs_ends_at_the_timeout():
    server, stuck = full_backlog()

    async def tell(dialer, _):
        with pytest.raises(DialError) as failed:
            await dialer.connect(["127.0.0.1"], server.getsockname()[1], asyncio.Protocol)
        assert failed.value.reason is EgressReason.HOST_UNREACHABLE

    dialing(tell, connect_timeout_s=0.05)
    for one in (server, *stuck):
        one.close()


@pytest.mark.parametrize("number", [1, 2])
def test_a_dial_given_up_leaves_no_socket_behind(number):
    server, stuck = full_backlog()

    async def tell(dialer, _):
        before = descriptors()
        addresses = ["127.0.0.1", "127.0.0.1"]
        dial = asyncio.ensure_future(dialer.connect(addresses, server.getsockname()[1], asyncio.Protocol))
        while descriptors() < before + number:  # noqa: ASYNC110
            await asyncio.sleep(0)
        dial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dial
        await asyncio.sleep(0)  # each try closes its own
        assert descriptors() == before

    dialing(tell, connect_timeout_s=100.0)
    for one in (server, *stuck):
        one.close()


@pytest.mark.parametrize("port", [0, 22, 25, 6379])
def test_ports_of_other_protocols_are_refused_whatever_is_allowed(port):
    async def tell(dialer, asked):
        with pytest.raises(DialError) as refused:
            await dialer.addresses("a.example", port)
        assert refused.value.reason is EgressReason.PORT_REFUSED
        assert asked == []

    dialing(tell)


def test_the_way_out_does_not_lead_back_to_itself():
    async def tell(dialer, _):
        dialer.own = ("192.0.2.7", 8011)
        for host in ("127.0.0.1", "127.9.9.9", "::1", "192.0.2.7"):
            with pytest.raises(DialError):
                await dialer.addresses(host, 8011)
        assert await dialer.addresses("127.0.0.1", 8012) == ["127.0.0.1"]

    dialing(tell, allow=("127.0.0.0/8", "::1/128", "192.0.2.0/24"))


def test_an_address_of_v6_counts_with_its_network():
    assert address_key("2606:4700:1:2:3::4") == address_key("2606:4700:1:2::9") == "2606:4700:1:2::/64"
    assert address_key("8.8.8.8") == "8.8.8.8"
