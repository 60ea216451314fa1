"""A real Synapse delivers through the way out to gateways that work, fail, stall, trickle, are not there."""

import json
import statistics
import threading
import time
import uuid

import pytest
from conftest import ask
from e2e_support import wait_for
from push_support import CA, TIMEOUT_S, V12, V13, Gateway, WayOut, short_timeout

from proxy.policies.push_egress import gateway_of
from tools.console import RUN
from tools.processes import free_port
from tools.synapse import Synapse

COOLDOWN_S = 8


def lookup(host):
    if host == "none.push.test":
        raise OSError("no such name")
    return ["127.0.0.1"]


class Story:
    """Carol's gateways work; those of three other users do not."""

    def __init__(self, synapse, way_out, gateways, accounts):
        self.synapse, self.way_out, self.accounts = synapse, way_out, accounts
        self.gateways = gateways
        self.alice, self.carol = accounts["alice"], accounts["carol"]
        self.others = [accounts[name] for name in ("dan", "eve", "frank")]
        invited = [account.user_id for name, account in accounts.items() if name != "alice"]
        room = ask(
            synapse.url, self.alice, "POST", "/createRoom", {"invite": invited, "preset": "private_chat"}
        )
        self.room = room["room_id"]
        for account in (self.carol, *self.others):
            ask(synapse.url, account, "POST", f"/rooms/{self.room}/join", {})

    def register(self, account, gateway):
        """What the data path does with an accepted `pushers/set`: it tells the way out."""
        pusher = {
            "kind": "http", "app_id": "test", "pushkey": f"{account.user_id} {gateway.name}", "lang": "en",
            "app_display_name": "t", "device_display_name": "t", "data": {"url": gateway.url},
        }  # fmt: skip
        ask(self.synapse.url, account, "POST", "/pushers/set", pusher)
        learned = gateway_of(json.dumps(pusher).encode())
        self.way_out.ask(lambda egress: egress.learn(*learned))

    def remove_pushers(self):
        """Of an earlier run: its gateways' ports are somebody else's now."""
        for account in self.accounts.values():
            for pusher in ask(self.synapse.url, account, "GET", "/pushers")["pushers"]:
                ask(self.synapse.url, account, "POST", "/pushers/set", {**pusher, "kind": None})

    def say(self):
        """Send a message; its id, and when it was sent."""
        at = time.monotonic()
        path = f"/rooms/{self.room}/send/m.room.message/{uuid.uuid4().hex}"
        body = {"msgtype": "m.text", "body": "carol dan eve frank"}
        return ask(self.synapse.url, self.alice, "PUT", path, body)["event_id"], at

    def latencies(self, number, every_s):
        """Say `number` things; how long each took to carol's two gateways."""
        working = [self.gateways["works13"], self.gateways["works"]]
        said = []
        for _ in range(number):
            said.append(self.say())
            time.sleep(every_s)
        took = []
        for event, at in said:
            for gateway in working:
                wait_for(
                    lambda event=event, gateway=gateway: event in gateway.arrived,
                    10,
                    f"{event} at {gateway.name}",
                )
                took.append(gateway.arrived[event] - at)
        return took

    def ask_far_server(self):
        """A federation request of Synapse's own, by CONNECT to a host that is no gateway."""
        far = self.gateways["far"]
        return ask(self.synapse.url, self.alice, "GET", f"/profile/@{uuid.uuid4().hex}:{far.name}:{far.port}")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    gateways = {
        name: Gateway(f"{name}.push.test", mode, version)
        for name, mode, version in [
            ("works13", "works", V13),
            ("works", "works", None),
            ("stalls12", "stalls", V12),
            ("stalls13", "stalls", V13),
            ("stalls", "stalls", None),
            ("trickles12", "trickles", V12),
            ("trickles13", "trickles", V13),
            ("fails13", "fails", V13),
            ("fails", "fails", None),
            ("none", "is not there", V13),
            ("refuses", "is not there", V13),
            ("far", "works", V13),
            ("distrusted13", "works", V13),
            ("distrusted12", "works", V12),
        ]
    }
    for name in ("none", "refuses"):
        gateways[name].port = free_port()
    for name in ("distrusted12", "distrusted13"):
        gateways[name].name = f"{name}.other.test"  # its certificate is for push.test
    settings = {"delivery_timeout_seconds": TIMEOUT_S, "cooldown_seconds": COOLDOWN_S}
    with WayOut(lookup, list(gateways.values()), **settings) as way_out:
        extra = {
            "http_proxy": way_out.url,
            "https_proxy": way_out.url,
            "no_proxy_hosts": [],
            "federation_custom_ca_list": [str(CA)],
            "bcrypt_rounds": 4,
        }
        environment = short_timeout(tmp_path_factory.mktemp("synapse"))
        with Synapse(RUN / "push", free_port(), extra, environment) as synapse:
            accounts = synapse.accounts(["alice", "carol", "dan", "eve", "frank"])
            story = Story(synapse, way_out, gateways, accounts)
            story.remove_pushers()
            yield story
            story.remove_pushers()


def test_no_gateway_keeps_the_deliveries_of_another_waiting(story):
    gateways = story.gateways
    story.register(story.carol, gateways["works13"])
    story.register(story.carol, gateways["works"])
    story.latencies(3, 0.1)  # the tunnels are made
    alone = story.latencies(20, 0.1)

    bad = [gateway for name, gateway in gateways.items() if name not in ("works13", "works", "far")]
    for account in story.others:
        for gateway in bad:
            story.register(account, gateway)
    far = []
    asking = threading.Thread(target=lambda: far.extend(story.ask_far_server() for _ in range(30)))
    asking.start()
    beside = story.latencies(45, 0.2)
    asking.join()

    assert len(far) == 30, "federation passes throughout"
    assert all(answer["displayname"] == "far away" for answer in far)
    # Whoever waits for one that stalls waits for seconds; how busy the machine is makes less of a difference.
    assert statistics.median(beside) <= 2 * statistics.median(alone) + TIMEOUT_S / 12
    assert statistics.quantiles(beside, n=10)[-1] <= 2 * statistics.quantiles(alone, n=10)[-1] + TIMEOUT_S / 6


@pytest.mark.parametrize(
    "name",
    [
        "stalls12",
        "stalls13",
        "stalls",
        "trickles12",
        "trickles13",
        "none",
        "refuses",
        "distrusted12",
        "distrusted13",
    ],
)
def test_what_cannot_be_reached_is_refused_after_three(story, name):
    gateway = story.gateways[name]
    state, failures = wait_for(lambda: story.way_out.failing.get(gateway.key), 5, name)
    assert state in ("refusing", "probing")
    assert failures >= 3
    for began_at in gateway.timeouts:
        in_a_cooldown = [at for at in gateway.timeouts if began_at <= at < began_at + COOLDOWN_S]
        assert len(in_a_cooldown) <= 3, "three timeouts a cooldown at most"


@pytest.mark.parametrize("name", ["fails", "fails13"])
def test_a_gateway_that_answers_500_is_never_refused(story, name):
    gateway = story.gateways[name]
    wait_for(lambda: gateway.answered >= 9, 10, "more than three attempts of each of three users")
    assert gateway.key not in story.way_out.failing


def test_a_recovered_gateway_is_found_by_the_probe(story):
    recovering = [
        story.gateways[name] for name in ("stalls12", "stalls13", "stalls", "trickles12", "trickles13")
    ]
    for gateway in recovering:
        gateway.mode = "works"
    for gateway in recovering:
        wait_for(
            lambda gateway=gateway: gateway.key not in story.way_out.failing,
            25,
            f"{gateway.name} to be found",
        )
    wait_for(lambda: all(len(gateway.arrived) for gateway in recovering), 10, "deliveries")
