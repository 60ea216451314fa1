import pytest

from proxy.identity.client_key import ClientKeys
from proxy.identity.networks import Networks
from proxy.identity.principal import CONFIRMED, Principal, anonymous
from proxy.mechanisms.byte_budget import ByteBudget, ByteLease
from proxy.spool.settings import BodyRatesSettings
from proxy.spool.spool import Spool
from proxy.spool.stores import BodyStores
from proxy.upstream.bodies import Bodies

TOTAL = 1_000
CLIENT = ClientKeys(trusted_proxies=Networks(())).resolve("192.0.2.1")
SOMEBODY = anonymous(CLIENT)


def bodies(*, memory, disk, files=0):
    """Budgets of 1,000 bytes, and of 1,000 files, of which so much is taken."""
    spool = Spool("nowhere", max_files=TOTAL, open_file=lambda: -1)
    spool.open_files = files
    budgets = ByteBudget(TOTAL), ByteBudget(TOTAL)
    for budget, taken in zip(budgets, (memory, disk), strict=True):
        assert budget.take(ByteLease(None, None, confirmed=True), taken)
    stores = BodyStores(spool, memory=budgets[0], disk=budgets[1], memory_bytes=64)
    return Bodies(stores, stores, BodyRatesSettings())


def cut_at(bodies, *, moved_at=0.0):
    """The second in which a client is too slow that took a mebibyte at `moved_at`, and nothing since."""
    floor = bodies.floor(SOMEBODY, 0.0)
    for second in range(100):
        if second >= moved_at:
            floor.moved(1 << 20, moved_at)
        bodies.hurry(floor, SOMEBODY, second, holds_worker=False)
        if floor.too_slow(second):
            return second
    return None


@pytest.mark.parametrize(
    ("memory", "disk", "files", "second"),
    [
        (0, 0, 0, 61),
        (TOTAL, TOTAL // 2, 0, 61),
        (TOTAL // 2, TOTAL, TOTAL, 61),
        (TOTAL, 750, 0, 32),
        (TOTAL, 0, 750, 32),
        (TOTAL, TOTAL, 0, 3),
        (TOTAL, 0, TOTAL, 3),
    ],
)
def test_the_less_room_there_is_the_shorter_a_client_may_take_nothing(memory, disk, files, second):
    assert cut_at(bodies(memory=memory, disk=disk, files=files)) == second


def test_a_client_that_takes_something_now_and_then_has_its_lead_where_nothing_more_can_be_kept():
    full = bodies(memory=TOTAL, disk=TOTAL)
    floor = full.floor(SOMEBODY, 0.0)
    for second in range(1, 60):
        floor.moved(second * 20_000, second)
        full.hurry(floor, SOMEBODY, second, holds_worker=False)
        assert not floor.too_slow(second)


@pytest.mark.parametrize(("holds_worker", "second"), [(False, 31), (True, 11)])
def test_a_client_for_which_the_homeserver_waits_has_no_more_time_than_anybody(holds_worker, second):
    account = Principal(CLIENT, CONFIRMED, account="@alice:a")
    roomy = bodies(memory=0, disk=0)
    floor = roomy.floor(account, 0.0)
    for now in range(second):
        roomy.hurry(floor, account, now, holds_worker=holds_worker)
        assert not floor.too_slow(now)
    roomy.hurry(floor, account, second, holds_worker=holds_worker)
    assert floor.too_slow(second)


@pytest.mark.parametrize(("guest", "unconfirmed"), [(True, 100), (False, 0)])
def test_a_guest_is_among_those_who_share_the_unconfirmed_part(guest, unconfirmed):
    memory, disk = ByteBudget(TOTAL, unconfirmed_bytes=TOTAL // 4), ByteBudget(TOTAL)
    spool = Spool("nowhere", open_file=lambda: -1)
    stores = BodyStores(spool, memory=memory, disk=disk, memory_bytes=64)
    who = Principal(CLIENT, CONFIRMED, account="@a:b", guest=guest)
    lease = Bodies(stores, stores, BodyRatesSettings()).answer_lease(who)
    assert memory.take(lease, 100)
    assert memory.statistics().unconfirmed_bytes == unconfirmed
