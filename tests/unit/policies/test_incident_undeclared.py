"""The same incident from clients that say nothing: bounded by held workers and the history line alone, while holds last."""

from random import Random

import pytest
from virtual_world import Backfill, IncidentHomeserver, OpenSide, World

from proxy.policies.worker_share import GRANTED, HELD, RUNNING, LaneRule, PoolRule, Ticket, WorkerShare

HOUR_S = 3600.0
OUTAGE_S = 9 * HOUR_S
WORKERS = 16
IN_LINE_S = 30.0


class ShareSide:
    """The workers of a small homeserver; one is held for `hold_s` after its client left, or until the homeserver is done."""

    def __init__(self, world, homeserver, hold_s):
        self.world, self.homeserver, self.hold_s = world, homeserver, hold_s
        lane = LaneRule("requests", WORKERS, 0.25, IN_LINE_S, 1024, 0, 4)
        self.share = WorkerShare([PoolRule(WORKERS, (lane,))], now=0.0)
        self.given = self.most_taken = 0

    def ask(self, client):
        client.permit = ticket = Ticket(
            0, client.flow, f"address of {client.flow}", client, confirmed=True, history=True
        )
        if self.share.ask(ticket, self.world.now) == GRANTED:
            self.run([ticket])
        else:
            self.world.after(IN_LINE_S, self.expire)

    def run(self, tickets):
        for ticket in tickets:
            self.given += 1
            ticket.owner.sent()
            self.homeserver.begin(self.done, ticket)
        (lane,) = self.share.statistics(self.world.now).lanes
        self.most_taken = max(self.most_taken, lane.running + lane.held)

    def done(self, ticket, status):
        assert status == 200
        self.end(ticket)
        ticket.owner.answered(ticket)

    def gone(self, client):
        self.run(self.share.hold(client.permit, self.world.now))
        self.world.after(self.hold_s, self.end, client.permit)

    def end(self, ticket):
        if ticket.state in (RUNNING, HELD):
            self.run(self.share.release(ticket, self.world.now))

    def expire(self):
        for ticket in self.share.expired(self.world.now):
            ticket.owner.refused(self.share.retry_after_s(ticket, self.world.now))


def incident(seed, side_of):
    world = World()
    homeserver = IncidentHomeserver(world, Random(seed), 1.0, OUTAGE_S)
    side = side_of(world, homeserver)
    for account in "ab":
        Backfill(world, side, account)
    world.run_until(OUTAGE_S)
    return side, homeserver


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_accounts_never_have_more_than_four_workers_each(seed):
    side, homeserver = incident(seed, lambda world, homeserver: ShareSide(world, homeserver, 900.0))
    assert side.most_taken == 8
    assert side.given < 400, "of more than 2,000 that are sent without us"
    assert 8 < homeserver.most_running < 45, "but what outlasts its hold is still at work there"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_a_hold_as_long_as_the_homeserver_works_so_it_is_there(seed):
    side, homeserver = incident(seed, lambda world, homeserver: ShareSide(world, homeserver, 3 * HOUR_S))
    assert (side.most_taken, homeserver.most_running) == (8, 8)


def test_without_us_it_is_everything_they_send():
    _, homeserver = incident(1, OpenSide)
    assert homeserver.most_running > 150
