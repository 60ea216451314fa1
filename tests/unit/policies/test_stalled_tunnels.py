import contextlib
import ssl
from pathlib import Path

import pytest

from proxy.policies.stalled_tunnels import Sign, TunnelWatch

TLS = Path(__file__).parents[1] / "egress" / "tls"
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
REQUEST_HEAD = b"POST /_matrix/push/v1/notify HTTP/1.1\r\nContent-Length: 300\r\n\r\n"
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{"rejected":[]}'
TIMEOUT_S = 60.0
RTT_S = 0.02


class Story:
    """A homeserver and a gateway speaking real TLS under virtual time, with a watch between them."""

    def __init__(self, version, *, tickets=2, on_trial=False, protocols=()):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(TLS / "leaf.pem", TLS / "leaf.key")
        server.num_tickets = tickets
        client = ssl.create_default_context(cafile=TLS / "ca.pem")
        client.minimum_version = client.maximum_version = version
        if protocols:
            client.set_alpn_protocols(protocols)
        self.to_gateway, self.from_gateway = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.homeserver = client.wrap_bio(self.from_gateway, self.to_gateway, server_hostname="a.push.test")
        self.in_gateway, self.out_gateway = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.gateway = server.wrap_bio(self.in_gateway, self.out_gateway, server_side=True)
        self.now = 100.0
        self.watch = TunnelWatch(self.now, TIMEOUT_S, on_trial=on_trial)
        self.watch.opened(self.now)
        self.signs = []

    def later(self, seconds):
        self.now += seconds
        return self

    def _try(self, step, *arguments):
        with contextlib.suppress(ssl.SSLWantReadError):
            step(*arguments)

    def move(self):
        """Let what is written pass, both ways, a byte at a time into the watch."""
        for _ in range(3):
            for data in (self.to_gateway.read(),):
                self.signs += [
                    self.watch.from_homeserver(data[at : at + 1], self.now) for at in range(len(data))
                ]
                self.in_gateway.write(data)
            self._try(self.gateway.do_handshake)
            self.later(RTT_S)
            self.pass_back()
            self._try(self.homeserver.do_handshake)
        return self

    def pass_back(self):
        data = self.out_gateway.read()
        self.signs += [self.watch.from_gateway(data[at : at + 1], self.now) for at in range(len(data))]
        self.from_gateway.write(data)

    def handshake(self):
        self._try(self.homeserver.do_handshake)
        return self.move()

    def ask(self, gap_s=0.003):
        """Send a request as Synapse does: the head in a record of its own."""
        self.homeserver.write(REQUEST_HEAD)
        self.move().later(gap_s)
        self.homeserver.write(b"x" * 300)
        return self.move()

    def answer(self, data=ANSWER):
        self.gateway.write(data)
        self.pass_back()
        self._try(self.homeserver.read, 65536)
        return self

    def told(self):
        signs, self.signs = [sign for sign in self.signs if sign is not Sign.NOTHING], []
        return signs


@pytest.fixture(params=[V12, V13], ids=["TLS 1.2", "TLS 1.3"])
def version(request):
    return request.param


def test_a_handshake_and_tickets_are_no_answer(version):
    story = Story(version).handshake().ask()
    assert story.told() == []
    assert story.watch.ended_by_gateway() is Sign.CLOSED


def test_a_first_answer_is_one(version):
    story = Story(version).handshake().ask().later(0.3).answer()
    assert story.told() == [Sign.ANSWERED]
    assert story.watch.ended_by_gateway() is Sign.OVER


def test_a_tunnel_used_again_is_watched_again(version):
    story = Story(version).handshake().ask().later(0.3).answer()
    for _ in range(3):
        story.later(2.0).ask().later(0.1).answer()
    assert story.told() == [Sign.ANSWERED] + [Sign.REQUEST, Sign.ANSWERED] * 3


def test_the_homeserver_giving_up_is_a_stall(version):
    for reset in (True, False):
        story = Story(version).handshake().ask()
        story.now = 160.0
        assert story.watch.ended_by_homeserver(story.now, reset=reset) is Sign.STALLED


def test_a_stall_in_a_tunnel_that_was_good_is_one(version):
    story = Story(version).handshake().ask().later(0.3).answer().later(30.0).ask().later(60.0)
    assert story.told() == [Sign.ANSWERED, Sign.REQUEST]
    assert story.watch.ended_by_homeserver(story.now, reset=True) is Sign.STALLED


def test_an_idle_tunnel_that_the_homeserver_closes_in_order_is_over(version):
    for kept_s in (15.0, 59.9, 90.0, 120.0):
        story = Story(version).handshake().ask().later(0.2).answer().later(kept_s)
        assert story.watch.ended_by_homeserver(story.now, reset=False) is Sign.OVER


def test_a_homeserver_that_restarts_teaches_nothing(version):
    story = Story(version).handshake().ask().later(3.0)
    assert story.watch.ended_by_homeserver(story.now, reset=False) is Sign.ABANDONED


def test_a_homeserver_that_never_gives_up_is_seen_through_at_the_deadline():
    story = Story(V12).handshake().ask()
    assert story.watch.gives_up_at == 165.0
    assert story.watch.deadline_passed() is Sign.STALLED


def test_a_gateway_that_closes_right_after_the_request_teaches_nothing(version):
    story = Story(version).handshake().ask()
    assert story.watch.ended_by_gateway() is Sign.CLOSED


def test_a_gateway_that_closes_an_idle_tunnel_is_everyday_life(version):
    story = Story(version).handshake().ask().later(0.2).answer()
    assert story.watch.ended_by_gateway() is Sign.OVER


def test_no_tls_is_a_failure():
    watch = TunnelWatch(0.0, TIMEOUT_S)
    watch.from_homeserver(b"\x16\x03\x01\x00\x05hello", 0.0)
    assert watch.ended_by_gateway() is Sign.TLS_FAILED
    watch = TunnelWatch(0.0, TIMEOUT_S)
    watch.from_homeserver(b"\x16\x03\x01\x00\x05hello", 0.0)
    watch.from_gateway(b"HTTP/1.1 400 Bad Request\r\n\r\n", 0.1)
    assert watch.ended_by_gateway() is Sign.TLS_FAILED


def test_a_handshake_that_stalls_is_a_stall():
    watch = TunnelWatch(0.0, TIMEOUT_S)
    watch.from_homeserver(b"\x16\x03\x01\x00\x05hello", 0.0)
    assert watch.ended_by_homeserver(60.0, reset=True) is Sign.STALLED


def test_a_certificate_that_the_homeserver_refuses_is_a_failure(version):
    story = Story(version)
    client = ssl.create_default_context()  # does not know the CA
    client.minimum_version = client.maximum_version = version
    story.homeserver = client.wrap_bio(story.from_gateway, story.to_gateway, server_hostname="a.push.test")
    with pytest.raises(ssl.SSLCertVerificationError):
        story.handshake()
    data = story.to_gateway.read()
    story.watch.from_homeserver(data, story.now)

    assert data, "an alert was sent"
    assert story.watch.ended_by_homeserver(story.now, reset=False) is Sign.TLS_FAILED


def test_bytes_that_are_no_tls_are_nobodys_delivery():
    watch = TunnelWatch(0.0, TIMEOUT_S)
    watch.from_homeserver(b"SSH-2.0-x\r\n", 0.0)
    assert watch.opaque
    assert watch.ended_by_homeserver(60.0, reset=True) is Sign.OVER


# TLS 1.3, the first exchange: answers and tickets look alike.


def test_tickets_that_come_while_the_request_is_sent_are_still_tickets():
    story = Story(V13).handshake()
    story.homeserver.write(REQUEST_HEAD)
    story.move()
    assert story.told() == []
    story.now = 160.0
    assert story.watch.ended_by_homeserver(story.now, reset=True) is Sign.STALLED


def test_a_homeserver_that_is_slow_to_send_its_first_request_has_not_had_an_answer_yet():
    story = Story(V13).handshake().later(3.0).ask()
    assert story.told() == []
    story.now = 160.0
    assert story.watch.ended_by_homeserver(story.now, reset=True) is Sign.STALLED


@pytest.mark.parametrize("tickets", [0, 1, 2, 4])
def test_an_answer_is_one_however_many_tickets_come_before_it(tickets):
    story = Story(V13, tickets=tickets).handshake().ask().later(0.5).answer()
    assert story.told() == [Sign.ANSWERED]


def test_an_answer_within_the_round_trip_is_told_by_its_length():
    story = Story(V13).handshake()
    story.homeserver.write(REQUEST_HEAD + b"x" * 300)
    data = story.to_gateway.read()
    story.watch.from_homeserver(data, story.now)
    story.in_gateway.write(data)
    story._try(story.gateway.do_handshake)
    story.later(RTT_S)
    story.answer()
    assert story.told() == [Sign.ANSWERED]


def quick_answer_without_tickets():
    story = Story(V13, tickets=0).handshake()
    story.homeserver.write(REQUEST_HEAD + b"x" * 300)
    story.move()
    return story.answer()


def test_a_quick_answer_of_a_gateway_without_tickets_is_settled_by_the_next_request():
    story = quick_answer_without_tickets()
    assert story.told() == []
    assert story.later(5.0).ask().later(0.2).answer().told() == [Sign.REQUEST, Sign.ANSWERED]


def test_a_quick_answer_of_a_gateway_without_tickets_is_settled_by_the_homeservers_patience():
    story = quick_answer_without_tickets()
    assert story.watch.deadline_passed() is Sign.ANSWERED
    assert story.watch.ended_by_gateway() is Sign.OVER


def test_a_quick_answer_is_no_stall_where_the_homeserver_closes_at_once():
    story = quick_answer_without_tickets()
    assert story.watch.ended_by_homeserver(story.now + 0.1, reset=False) is Sign.ABANDONED


def test_an_answer_before_the_whole_request_does_not_look_like_a_second_delivery_that_stalls():
    story = Story(V12).handshake()
    story.homeserver.write(REQUEST_HEAD)
    story.move().answer()
    story.homeserver.write(b"x" * 300)
    story.move()
    assert story.told() == [Sign.ANSWERED, Sign.REQUEST]
    assert story.watch.deadline_passed() is Sign.ANSWERED


# A gateway that sends the beginning of an answer, and no more.


def test_a_trickled_answer_is_doubted_when_the_homeserver_resets_at_its_timeout(version):
    story = Story(version).handshake().ask().later(0.3).answer(b"HTTP/1.1 200 OK\r\n")
    assert story.told() == [Sign.ANSWERED]
    story.now = 160.0
    assert story.watch.ended_by_homeserver(story.now, reset=True) is Sign.DOUBTED


def test_a_gateway_on_trial_has_answered_only_when_the_homeserver_is_content(version):
    story = Story(version, on_trial=True).handshake().ask().later(0.3).answer(b"HTTP/1.1 200 OK\r\n")
    assert story.told() == []
    story.now = 160.0
    assert story.watch.ended_by_homeserver(story.now, reset=True) is Sign.STALLED

    story = Story(version, on_trial=True).handshake().ask().later(0.3).answer().later(3.0).ask()
    assert story.told() == [Sign.REQUEST]

    story = Story(version, on_trial=True).handshake().ask().later(0.3).answer()
    assert story.watch.ended_by_homeserver(story.now, reset=False) is Sign.ANSWERED


# HTTP/2.


@pytest.mark.parametrize("protocols", [["h2"], ["h2", "http/1.1"], ["http/1.1", "h2"]])
def test_where_http2_is_offered_the_first_bytes_are_an_answer_and_the_rest_tells_nothing(version, protocols):
    story = Story(version, protocols=protocols).handshake().ask().later(0.3).answer()
    assert story.told() == [Sign.ANSWERED]
    story.later(5.0).ask().later(60.0)
    assert story.told() == []
    assert story.watch.ended_by_homeserver(story.now, reset=False) is Sign.OVER


def test_http11_alone_is_watched(version):
    story = (
        Story(version, protocols=["http/1.1", "x-h2"]).handshake().ask().later(0.3).answer().later(5.0).ask()
    )
    assert story.told() == [Sign.ANSWERED, Sign.REQUEST]
