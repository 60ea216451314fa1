"""Gateways that stall, refuse, answer, recover; and those that nobody may make look as if they did."""

import asyncio
import json
import random
import socket
import ssl
from dataclasses import asdict

import pytest
from egress_support import CONTENT, OK, SERVER_ERROR, Client, delivery, get, in_world, turns, until

import proxy.egress.deliveries
from proxy.egress.egress import Egress
from proxy.egress.settings import EgressSettings
from proxy.egress.state import FILE_NAME
from proxy.policies.push_egress import DeliveryEnd

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
REFUSED = ("gateway_refused", 503)


@pytest.fixture(params=[V12, V13], ids=["TLS 1.2", "TLS 1.3"])
def version(request):
    return request.param


async def stall_plain(world, host, name="push.test"):
    """One plain delivery that the host lets hang until the way out gives it up."""
    client = await world.client()
    had = len(host.requests)
    client.send(delivery(name, host.port))
    await until(lambda: len(host.requests) > had)
    await world.later(66)
    return (await client.answer())[:2]


async def stall_tls(world, host, client=None, name="a.push.test"):
    """One delivery in a tunnel that the homeserver gives up, as Synapse does after its minute."""
    client = await world.begin_tls(host, name, client)
    world.skew += 60
    client.reset()
    await until(lambda: world.egress.statistics().deliveries_under_way == 0)


# Plain deliveries.


def test_a_plain_gateway_that_stalls_is_refused_after_three_and_probed_once_a_cooldown():
    async def tell(world):
        host = await world.host(None)
        for _ in range(3):
            assert await stall_plain(world, host) == ("origin_timeout", 504)
        for _ in range(5):
            assert (await world.deliver(host))[:2] == REFUSED
        assert world.failing == {f"http://push.test:{host.port}": ("refusing", 3)}

        await world.later(301)
        assert await stall_plain(world, host) == ("origin_timeout", 504)
        assert (await world.deliver(host))[:2] == REFUSED
        assert len(host.requests) == 4, "three, and one probe"

        host.answer = OK
        await world.later(301)
        assert (await world.deliver(host))[1] == 200
        assert (await world.deliver(host))[1] == 200
        assert world.failing == {}

    in_world(tell)


def test_an_answer_of_any_kind_reaches_the_gateway():
    async def tell(world):
        host = await world.host(SERVER_ERROR)
        for answer in (
            SERVER_ERROR,
            SERVER_ERROR.replace(b"500", b"429"),
            SERVER_ERROR.replace(b"500", b"404"),
        ) * 4:
            host.answer = answer
            assert (await world.deliver(host))[0] is None
        host.answer = None
        for _ in range(2):
            await stall_plain(world, host)
        host.answer = SERVER_ERROR
        await world.deliver(host)
        assert world.failing == {}

    in_world(tell)


def test_an_answer_that_trickles_is_none():
    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{")
        for _ in range(3):
            assert await stall_plain(world, host) == ("origin_timeout", 504)
        assert (await world.deliver(host))[:2] == REFUSED

    in_world(tell)


def test_a_gateway_that_closes_without_an_answer_teaches_nothing():
    async def tell(world):
        host = await world.host(None, close=True)
        for _ in range(5):
            assert (await world.deliver(host))[:2] == ("origin_closed", 502)
        assert world.failing == {}

    in_world(tell)


def test_a_homeserver_that_gives_up_late_had_a_stall_and_one_that_leaves_early_had_none():
    async def tell(world):
        host = await world.host(None)
        for number in range(6):
            client = await world.client()
            client.send(delivery("push.test", host.port))
            await until(lambda number=number: len(host.requests) == number + 1)
            world.skew += 3 if number < 3 else 30
            client.reset()
            await until(lambda: not len(world.egress.connections))
        assert world.failing == {f"http://push.test:{host.port}": ("refusing", 3)}
        totals = world.egress.statistics().deliveries_total
        assert (totals["abandoned"], totals["stalled"]) == (3, 3)

    in_world(tell)


@pytest.mark.parametrize("spelled", ["PUSH.test", "push.test.", "Push.Test."])
def test_spellings_of_one_gateway_share_its_circuit(spelled):
    async def tell(world):
        host = await world.host(None)
        for _ in range(3):
            await stall_plain(world, host)
        assert (await world.deliver(host, spelled))[:2] == REFUSED

    in_world(tell)


def test_a_name_that_does_not_resolve_and_a_port_nobody_listens_at_are_failures():
    async def tell(world):
        host = await world.host()
        world.names["none.test"] = []
        for _ in range(3):
            assert (await world.deliver(host, "none.test"))[:2] == ("host_unresolved", 502)
        assert (await world.deliver(host, "none.test"))[:2] == REFUSED
        host.stop()
        world.egress.learn("gone.test", host.port)
        for _ in range(3):
            assert await world.connect("gone.test", host.port) == (None, "host_unreachable")
        assert await world.connect("gone.test", host.port) == (None, "gateway_refused")
        assert world.looked_up["none.test"] == 3

    in_world(tell)


def test_what_is_no_delivery_is_untouched_by_a_gateways_breaker():
    async def tell(world):
        host = await world.host(None)
        for _ in range(3):
            await stall_plain(world, host)
        host.answer = OK
        client = await world.client()
        client.send(get("push.test", host.port, "/preview"))
        assert (await client.answer())[1] == 200

    in_world(tell)


def test_plain_requests_to_a_tls_port_close_nothing_for_tls_and_the_other_way_round(version):
    async def tell(world):
        secure, plain = await world.host(version=version), await world.host()
        world.egress.learn("a.push.test", secure.port)
        world.egress.learn("a.push.test", plain.port)
        for _ in range(4):
            assert (await world.deliver(secure, "a.push.test"))[1] == 502
        await world.deliver_tls(secure)
        for _ in range(4):
            client, reason = await world.connect("a.push.test", plain.port)
            if client is None:
                assert reason == "gateway_refused"
                break
            await world.pass_through(client, b"\x16\x03\x01\x00\x05hello")
            world.skew += 60
            client.reset()
            await until(lambda: world.egress.statistics().deliveries_under_way == 0)
        assert (await world.deliver(plain, "a.push.test"))[1] == 200

    in_world(tell)


def test_plain_deliveries_under_way_are_cut_with_words_when_their_gateway_is_refused():
    async def tell(world):
        host = await world.host(None)
        for _ in range(2):
            await stall_plain(world, host)
        first, *others = [await world.client() for _ in range(4)]
        for client in (first, *others):
            client.send(delivery("push.test", host.port))
        await until(lambda: len(host.requests) == 6)
        world.skew += 30
        first.reset()
        assert [(await client.answer())[:2] for client in others] == [REFUSED] * 3

    in_world(tell)


@pytest.mark.parametrize("through", ["plain", "tunnel"])
def test_a_delivery_on_its_way_when_its_gateway_is_refused_goes_no_further(through):
    async def tell(world):
        host = await world.host(None)
        world.egress.learn("push.test", host.port)
        deliveries = world.egress.deliveries
        on_its_way = asyncio.Event()
        may_go_on = asyncio.Event()
        connect = world.egress.dialer.connect

        async def slow_connect(*arguments):
            on_its_way.set()
            await may_go_on.wait()
            return await connect(*arguments)

        world.egress.dialer.connect = slow_connect
        if through == "plain":
            told = asyncio.ensure_future(world.deliver(host))
        else:
            told = asyncio.ensure_future(world.connect("push.test", host.port))
        await on_its_way.wait()
        for _ in range(3):
            one = deliveries.begin("push.test", host.port, tls=through == "tunnel")
            deliveries.end(one, DeliveryEnd.STALLED)
        may_go_on.set()
        assert (await told)[1 if through == "tunnel" else 0] == "gateway_refused"
        assert world.egress.statistics().deliveries_under_way == 0

    in_world(tell)


def test_hints_are_spread_by_half_and_name_at_most_three_quarters_of_a_minute():
    random.seed(1)

    async def tell(world):
        host = await world.host(None)
        world.names["none.test"] = []
        client = await world.client()

        async def hints_s(request):
            client.send(request * 60)
            told = [await client.answer() for _ in range(60)]
            assert len({reason for reason, _, _ in told}) == 1
            return [json.loads(body)["retry_after_ms"] / 1000 for _, _, body in told]

        of_a_name = await hints_s(get("none.test", 80))
        assert 2.5 <= min(of_a_name) < 3.2
        assert 6.8 < max(of_a_name) <= 7.5
        for _ in range(3):
            await stall_plain(world, host)
        of_a_gateway = await hints_s(
            get("push.test", host.port, "/_matrix/push/v1/notify").replace(b"GET", b"POST", 1)
        )
        assert 15 <= min(of_a_gateway) < 20
        assert 40 < max(of_a_gateway) <= 45

    in_world(tell)


# Tunnels.


def test_a_stall_in_a_tunnel_counts_and_the_third_cuts_the_others(version):
    async def tell(world):
        host, other = await world.host(version=version), await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        world.egress.learn("a.push.test", other.port)
        idle = await world.deliver_tls(host)
        elsewhere = await world.deliver_tls(other)
        host.answer = None
        for _ in range(3):
            await stall_tls(world, host)
        assert world.failing == {world.key(host): ("refusing", 3)}
        assert await idle.ended() == b""
        assert await world.connect("a.push.test", host.port) == (None, "gateway_refused")
        await world.deliver_tls(other, client=elsewhere)

        host.answer = OK
        await world.later(301)
        probe = await world.begin_tls(host)
        assert (await probe.answer())[2] == CONTENT
        await until(lambda: world.failing == {})
        await world.deliver_tls(host)

    in_world(tell)


def test_one_probe_at_a_time_in_tunnels_too(version):
    async def tell(world):
        host = await world.host(None, version=version)
        world.egress.learn("a.push.test", host.port)
        for _ in range(3):
            await stall_tls(world, host)
        await world.later(301)
        probe = await world.begin_tls(host)
        assert await world.connect("a.push.test", host.port) == (None, "gateway_refused")
        world.skew += 60
        probe.reset()
        await until(lambda: world.failing == {world.key(host): ("refusing", 4)})

    in_world(tell)


def test_a_stall_in_a_tunnel_that_was_good_counts(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        tunnel = await world.deliver_tls(host)
        world.skew += 30
        host.answer = None
        await stall_tls(world, host, tunnel)
        assert world.failing == {world.key(host): ("admitting", 1)}

    in_world(tell)


def test_a_homeserver_that_never_gives_up_loses_the_tunnel():
    async def tell(world):
        host = await world.host(None, version=V12)
        world.egress.learn("a.push.test", host.port)
        tunnel = await world.begin_tls(host)
        await world.later(66)
        assert await tunnel.ended() == b""
        assert world.failing == {world.key(host): ("admitting", 1)}

    in_world(tell)


def test_what_may_have_been_tickets_is_an_answer_where_the_homeserver_stays():
    async def tell(world):
        host = await world.host(None, version=V13)
        world.egress.learn("a.push.test", host.port)
        tunnel = await world.begin_tls(host)
        await world.later(66)
        assert not tunnel.reader.at_eof()
        assert world.failing == {}
        assert world.egress.statistics().deliveries_total["answered"] == 1

    in_world(tell)


def test_idle_tunnels_teach_nothing_however_they_end(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        for kept_s in (15, 61, 120):
            tunnel = await world.deliver_tls(host)
            world.skew += kept_s
            tunnel.close()
            await until(lambda: not len(world.egress.connections))
        for _ in range(3):
            await world.deliver_tls(host)
        for writer in list(host.open):
            writer.close()
        await until(lambda: not len(world.egress.connections))
        assert world.failing == {}
        assert world.egress.statistics().deliveries_total["stalled"] == 0

    in_world(tell)


def test_a_handshake_that_stalls_fails_and_so_does_one_that_breaks():
    async def tell(world):
        silent = await world.host(None)
        world.egress.learn("a.push.test", silent.port)
        for _ in range(3):
            client, _ = await world.connect("a.push.test", silent.port)
            await world.pass_through(client, b"\x16\x03\x01\x00\x05hello")
            world.skew += 60
            client.reset()
            await until(lambda: world.egress.statistics().deliveries_under_way == 0)
        assert await world.connect("a.push.test", silent.port) == (None, "gateway_refused")

        no_tls = await world.host(b"", close=True)
        world.egress.learn("a.push.test", no_tls.port)
        for _ in range(3):
            client, _ = await world.connect("a.push.test", no_tls.port)
            client.send(b"\x16\x03\x01\x00\x04\r\n\r\n")
            assert await client.ended() == b""
        assert await world.connect("a.push.test", no_tls.port) == (None, "gateway_refused")

    in_world(tell)


@pytest.mark.slow
def test_a_certificate_nobody_trusts_fails_but_not_under_an_odd_spelling(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)

        async def distrust(name):
            client, reason = await world.connect(name, host.port)
            assert client is not None, reason
            with pytest.raises(ssl.SSLCertVerificationError):
                await client.writer.start_tls(ssl.create_default_context(), server_hostname="a.push.test")
            await until(lambda: world.egress.statistics().deliveries_under_way == 0)

        for _ in range(4):
            await distrust("a.push.test.")
        assert world.failing == {}
        for _ in range(3):
            await distrust("A.push.test")
        assert world.failing == {world.key(host): ("refusing", 3)}

    in_world(tell)


def test_a_gateway_that_sends_the_beginning_of_an_answer_is_found_out(version):
    async def tell(world):
        host = await world.host(b"HTTP/1.1 200 OK\r\n", version=version)
        world.egress.learn("a.push.test", host.port)
        for _ in range(3):
            client = await world.begin_tls(host)
            world.skew += 60
            client.reset()
            await until(lambda: not len(world.egress.connections))
        assert world.failing == {world.key(host): ("refusing", 3)}

        host.answer = OK
        await world.later(301)
        probe = await world.deliver_tls(host)
        assert world.failing == {world.key(host): ("probing", 3)}, (
            "on trial: not before the homeserver is content"
        )
        world.skew += 5
        await world.deliver_tls(host, client=probe)
        assert world.failing == {}
        assert not world.egress.deliveries.is_on_trial(world.key(host))

    in_world(tell)


def test_hosts_that_are_no_gateways_are_left_alone(version):
    async def tell(world):
        host = await world.host(None, version=version)
        for _ in range(5):
            client = await world.begin_tls(host)
            world.skew += 60
            client.reset()
            await until(lambda: not len(world.egress.connections))
        assert world.failing == {}
        assert world.egress.statistics().deliveries_total["stalled"] == 0

    in_world(tell)


# Federation partners.


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["a.push.test", "push.test"])
def test_nobody_makes_a_federation_partner_look_like_a_stalled_gateway(peer, version):
    async def tell(world):
        host = await world.host(None, version=version)
        world.egress.learn("a.push.test", host.port)
        world.egress.federation_peer(peer)
        for _ in range(5):
            client = await world.begin_tls(host)
            world.skew += 60
            client.reset()
            await until(lambda: not len(world.egress.connections))
        many = [await world.begin_tls(host) for _ in range(20)]
        assert world.egress.statistics().deliveries_under_way == 0, "federation needs no place"
        assert world.failing == {}
        await world.later(100)
        assert all(not client.reader.at_eof() for client in many)

    in_world(tell)


@pytest.mark.slow
def test_for_a_federation_partner_failures_to_connect_count_and_tunnels_live_on(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        world.egress.federation_peer("a.push.test")
        tunnel = await world.deliver_tls(host)
        host.server.close()
        for _ in range(3):
            assert await world.connect("a.push.test", host.port) == (None, "host_unreachable")
        assert await world.connect("a.push.test", host.port) == (None, "gateway_refused")
        await world.deliver_tls(host, client=tunnel)

    in_world(tell)


def test_a_gateway_that_turns_out_to_be_a_federation_partner_keeps_its_tunnels(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        tunnel = await world.deliver_tls(host)
        world.egress.federation_peer("a.push.test")
        host.server.close()
        for _ in range(3):
            assert await world.connect("a.push.test", host.port) == (None, "host_unreachable")
        assert world.failing == {world.key(host): ("refusing", 3)}
        await world.deliver_tls(host, client=tunnel)

    in_world(tell)


def test_bytes_that_are_no_tls_hold_no_place():
    async def tell(world):
        host = await world.host()
        world.egress.learn("a.push.test", host.port)
        client, _ = await world.connect("a.push.test", host.port)
        assert world.egress.statistics().deliveries_under_way == 1
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        await client.until(CONTENT)
        assert world.egress.statistics().deliveries_under_way == 0
        await world.later(66)
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        await client.until(CONTENT)
        assert world.failing == {}

    in_world(tell)


# Places.


def test_after_a_failure_eight_deliveries_wait_at_a_gateway_and_the_rest_wait_here():
    async def tell(world):
        host = await world.host(None)
        await stall_plain(world, host)
        clients = [await world.client() for _ in range(12)]
        for client in clients:
            client.send(delivery("push.test", host.port))
        await until(lambda: len(host.requests) == 9 and world.egress.statistics().deliveries_waiting == 4)
        host.answer = OK
        for writer in list(host.open):
            writer.write(OK)
        for client in clients:
            assert (await client.answer())[1] == 200

    in_world(tell)


def test_who_waits_too_long_is_declined_and_that_teaches_nothing(monkeypatch):
    monkeypatch.setattr(proxy.egress.deliveries, "MAX_WAIT_S", 0.05)

    async def tell(world):
        host = await world.host(None)
        await stall_plain(world, host)
        clients = [await world.client() for _ in range(9)]
        for client in clients:
            client.send(delivery("push.test", host.port))
        await until(lambda: len(host.requests) == 9)
        told = [asyncio.ensure_future(client.answer()) for client in clients]
        done, _ = await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result()[:2] for task in done] == [("gateway_busy", 503)]
        assert world.failing == {f"http://push.test:{host.port}": ("admitting", 1)}
        for task in told:
            task.cancel()

    in_world(tell)


def test_a_stalled_gateway_does_not_keep_others_waiting(version):
    async def tell(world):
        stalled, good = await world.host(None, version=version), await world.host(version=version)
        for host in (stalled, good):
            world.egress.learn("a.push.test", host.port)
        held = []
        for _ in range(20):
            client, reason = await world.connect("a.push.test", stalled.port)
            assert reason is None
            held.append(client)
        await world.deliver_tls(good)

    in_world(tell)


def test_a_request_in_a_kept_tunnel_waits_for_its_place_and_then_passes(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        tunnel = await world.deliver_tls(host)
        world.skew += 5
        world.egress.deliveries.places.note(world.key(host), None, answered=False)
        held = [(await world.connect("a.push.test", host.port))[0] for _ in range(8)]
        waits = asyncio.ensure_future(world.deliver_tls(host, client=tunnel))
        await until(lambda: world.egress.statistics().deliveries_waiting == 1)
        assert len(host.requests) == 1
        held[0].reset()
        await waits
        assert len(host.requests) == 2

    in_world(tell)


def test_a_request_in_a_kept_tunnel_that_waits_too_long_loses_the_tunnel(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        tunnel = await world.deliver_tls(host)
        world.skew += 5
        world.egress.deliveries.places.note(world.key(host), None, answered=False)
        held = [(await world.connect("a.push.test", host.port))[0] for _ in range(8)]
        for _ in range(100):
            tunnel.send(bytes(100_000))
        await until(lambda: world.egress.statistics().deliveries_waiting == 1)
        await turns()
        (kept,) = [
            len(one.tunnel._held) for one in world.egress.connections if one.tunnel and one.tunnel._held
        ]
        assert kept <= 65_536
        await world.later(31)
        assert await tunnel.ended() == b""
        assert world.egress.statistics().deliveries_waiting == 0
        assert len(held) == 8

    in_world(tell)


# Life.


def test_what_was_learned_survives_a_restart(tmp_path):
    async def first(world):
        host = await world.host()
        world.egress.learn("push.example", 443)
        await world.deliver(host, "seen.test")
        world.egress.federation_peer("Peer.Example.")
        await world.later(3)
        await until((tmp_path / FILE_NAME).exists)
        world.egress.learn("later.example", 443)

    async def second(world):
        known = world.egress.known
        assert known.is_gateway("push.example", 443)
        assert known.is_gateway("later.example", 443)
        assert known.is_peer("peer.example")
        assert world.egress.statistics().gateways_known == 3

    in_world(first, state_directory=tmp_path)
    text = (tmp_path / FILE_NAME).read_text()
    assert "notify" not in text
    assert set(json.loads(text)) == {"version", "gateways", "peers"}
    in_world(second, state_directory=tmp_path)


def test_a_state_directory_that_cannot_be_written_is_told_and_nothing_else(tmp_path, capsys):
    async def tell(world):
        host = await world.host()
        assert (await world.deliver(host))[1] == 200

    in_world(tell, state_directory=tmp_path / "missing")
    assert "cannot be written" in capsys.readouterr().out


def test_the_start_of_refusing_is_one_warning_with_its_outcome(capsys):
    async def tell(world):
        host = await world.host(None)
        for _ in range(3):
            await stall_plain(world, host)
        for _ in range(3):
            await world.deliver(host)
        await world.later(301)
        host.answer = OK
        await world.deliver(host)

    in_world(tell)
    lines = capsys.readouterr().out.splitlines()
    warnings = [line for line in lines if "warning" in line]
    assert len(warnings) == 1
    assert "gateway refused" in warnings[0]
    assert "outcome=stalled" in warnings[0]
    assert sum("gateway reached again" in line for line in lines) == 1


def test_its_figures_say_which_gateways_are_refused_and_until_when():
    async def tell(world):
        host = await world.host(None)
        for _ in range(3):
            await stall_plain(world, host)
        shown = json.loads(json.dumps(asdict(world.egress.statistics())))
        assert shown["gateways"] == {"admitting": 0, "refusing": 1, "probing": 0}
        assert shown["deliveries_total"]["stalled"] == 3
        (failing,) = shown["failing"]
        assert 290 < failing.pop("next_probe_s") <= 300
        assert failing == {"gateway": f"http://push.test:{host.port}", "state": "refusing", "failures": 3}

    in_world(tell)


def test_it_listens_at_a_socket_file_too(tmp_path):
    async def tell(world):
        host = await world.host()
        egress = Egress(
            EgressSettings(listen={"address": f"unix:{tmp_path}/out.sock"}, allow=("127.0.0.0/8",), clients=()),
            asyncio.get_running_loop(), world.clock, lookup=world.lookup,
        )  # fmt: skip
        await egress.start()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "out.sock")
        client = Client(reader, writer)
        assert (await world.deliver(host, client=client))[1] == 200
        client.close()
        await egress.stop()

    in_world(tell)


def test_a_socket_that_was_handed_over_is_left_to_the_next_process():
    async def tell(world):
        host = await world.host()
        with socket.create_server(("127.0.0.1", 0)) as held:
            port = held.getsockname()[1]
            settings = EgressSettings(listen={"address": f"127.0.0.1:{port}"}, allow=("127.0.0.0/8",))
            egresses = [
                Egress(settings, asyncio.get_running_loop(), world.clock, lookup=world.lookup)
                for _ in range(2)
            ]
            first, second = egresses
            await first.start([held.dup()])
            client = Client(*await asyncio.open_connection("127.0.0.1", port))
            assert (await world.deliver(host, client=client))[1] == 200
            first.let_go()
            newcomer = Client(*await asyncio.open_connection("127.0.0.1", port))
            await second.start([held.dup()])
            assert (await world.deliver(host, client=newcomer))[1] == 200
            assert (first.accepted_total, second.accepted_total) == (1, 1)
            for egress in egresses:
                await egress.stop()
            for one in (client, newcomer):
                one.close()

    in_world(tell)


def test_stopping_lets_a_delivery_end_within_the_grace():
    async def tell(world):
        host = await world.host(None)
        client = await world.client()
        client.send(delivery("push.test", host.port))
        await until(lambda: len(host.requests) == 1)
        stopping = asyncio.ensure_future(world.egress.stop(grace_s=5.0))
        await until(lambda: world.egress.stopping)
        for writer in host.open:
            writer.write(OK)
        assert (await client.answer())[1] == 200
        assert await client.ended() == b""
        await stopping

    in_world(tell)


def test_at_any_moment_a_homeserver_may_leave_and_nothing_is_left_behind(version):
    async def tell(world):
        host = await world.host(version=version)
        world.egress.learn("a.push.test", host.port)
        plain = await world.host()
        for steps in range(25):
            for request in (
                b"CONNECT a.push.test:%d HTTP/1.0\r\n\r\n" % host.port,
                delivery("a.push.test", plain.port),
            ):
                client = await world.client()
                client.send(request)
                for _ in range(steps):
                    await asyncio.sleep(0)
                client.reset()
        await until(lambda: not len(world.egress.connections))
        await until(lambda: not host.open)
        statistics = world.egress.statistics()
        assert (statistics.deliveries_under_way, statistics.deliveries_waiting) == (0, 0)
        assert world.egress.deliveries._cuttable == {}
        await world.deliver_tls(host)

    in_world(tell)
