import pytest

from proxy.downstream.admission import Admission
from proxy.downstream.settings import ConnectionSettings
from proxy.http1.deadlines import DeadlineSweep
from proxy.http1.life_cycle import State
from proxy.identity.client_key import ClientKeys
from proxy.identity.networks import Networks


class Transport:
    def __init__(self, peer):
        self.peer = peer

    def get_extra_info(self, _):
        return self.peer and (self.peer, 1)


class Connection:
    def __init__(self, peer, state=State.FIRST_BYTE, deadline_at=0.0):
        self.transport = Transport(peer)
        self.state = state
        self.deadline_at = deadline_at
        self.asker = self.place = None
        self.sweep_slot = -1

    def turn_away(self):
        self.state = State.CLOSED

    @property
    def is_closed(self):
        return self.state is State.CLOSED


class House:
    def __init__(self, max_connections, *, trusted=("10.0.0.0/8",), exempt=(), **settings):
        self.connections = DeadlineSweep()
        self.keys = ClientKeys(trusted_proxies=Networks(trusted), exempt=Networks(exempt))
        self.admission = Admission(self.connections)
        self.configure(max_connections, **settings)

    def configure(self, max_connections, **settings):
        self.admission.configure(ConnectionSettings(**settings), self.keys, max_connections)

    def opens(self, peer, **more):
        connection = Connection(peer, **more)
        self.admission.opened(connection)
        return connection

    def leaves(self, connection):
        connection.state = State.CLOSED
        self.admission.closed(connection)

    @property
    def turned_away(self):
        return {name: total for name, total in self.admission.turned_away.totals.items() if total}


def test_ten_thousand_that_wait_give_way_to_ten_thousand_honest_clients_one_by_one():
    house = House(10_000, per_address=10_000)
    hoard = [house.opens(f"192.0.2.{number % 3}") for number in range(10_000)]
    honest = [house.opens(f"198.51.{number // 250}.{number % 250}") for number in range(9_000)]
    assert not any(connection.is_closed for connection in honest)
    assert [connection.is_closed for connection in hoard] == [True] * 9_000 + [False] * 1_000
    assert len(house.connections) == 10_000
    assert house.turned_away == {"evicted": 9_000}


def test_who_came_before_the_crowd_has_its_turn_by_how_long_it_waits():
    house = House(8)
    parked = [house.opens("192.0.2.1", state=State.PARKED, deadline_at=100.0 - number) for number in range(4)]
    served = house.opens("192.0.2.1", state=State.IN_SERVICE)
    for number in range(3):
        house.opens(f"198.51.100.{number}", deadline_at=1e6)
    for wanted in reversed(parked[1:]):
        house.opens("203.0.113.1", deadline_at=1e6)
        assert wanted.is_closed
    assert not served.is_closed


def test_nobody_is_counted_while_there_is_room():
    house = House(100, per_address=1)
    connections = [house.opens("192.0.2.1") for _ in range(75)]
    assert not house.admission.crowded
    assert all(connection.place is None for connection in connections)
    assert house.opens("192.0.2.1").is_closed
    assert house.admission.crowded


def test_a_crowd_is_let_go_when_enough_have_left():
    house = House(8)
    connections = [house.opens("192.0.2.1") for _ in range(7)]
    for connection in connections[:2]:
        house.leaves(connection)
    assert house.admission.crowded
    house.leaves(connections[2])
    assert not house.admission.crowded
    assert all(connection.place is None for connection in connections[3:])


@pytest.mark.parametrize("peer", ["10.0.0.1", "192.0.2.1"])
def test_trusted_and_exempt_peers_are_neither_capped_nor_displaced(peer):
    house = House(4, exempt=("192.0.2.0/24",), per_address=1)
    theirs = [house.opens(peer) for _ in range(4)]
    assert house.opens("198.51.100.1").is_closed
    assert house.opens(peer).is_closed  # nobody can give way
    assert not any(connection.is_closed for connection in theirs)
    assert house.turned_away == {"full": 2}


def test_a_client_that_reset_before_it_was_accepted_is_turned_away():
    house = House(4)
    assert house.opens(None).is_closed
    assert not len(house.connections)


def test_a_client_that_a_proxy_names_counts_as_that_client_and_not_before():
    house = House(8, per_address=2)
    connections = [house.opens("10.0.0.1", state=State.PROXY_HEADER) for _ in range(7)]
    for connection in connections[:3]:
        house.admission.named(connection, "192.0.2.1")
    assert [connection.is_closed for connection in connections[:3]] == [False, False, True]
    assert house.turned_away == {"per_address": 1}


def test_new_settings_hold_for_who_is_connected():
    house = House(8, per_address=8)
    connections = [house.opens("192.0.2.1") for _ in range(7)]
    house.configure(8, per_address=2)
    assert all(connection.place is None for connection in connections)
    assert house.opens("192.0.2.1").is_closed
    house.leaves(connections[0])
    assert not house.opens("192.0.2.2").is_closed
