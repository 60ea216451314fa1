from proxy.mechanisms.byte_budget import ByteBudget, ByteLease
from proxy.spool.stores import disk_budget, memory_budget

MIB = 1_048_576


def lease(flow="@a:x", address="192.0.2.1", *, confirmed=True):
    return ByteLease(flow, address, confirmed=confirmed)


def test_one_flow_takes_a_quarter_of_the_spool_and_no_byte_more():
    budget = disk_budget(1024 * MIB)
    first, second = lease(address="192.0.2.1"), lease(address="192.0.2.2")
    assert budget.take(first, 200 * MIB)
    assert budget.take(second, 56 * MIB)
    assert not budget.take(second, 1)
    assert budget.statistics().refused_total == 1


def test_one_address_takes_half_of_the_spool_however_many_accounts_it_has():
    budget = disk_budget(1024 * MIB)
    assert [budget.take(lease(f"@{n}:x"), 200 * MIB) for n in range(4)] == [True, True, False, False]


def test_all_unconfirmed_together_take_a_quarter_of_the_spool():
    budget = disk_budget(1024 * MIB)
    flows = [lease(f"192.0.2.{n}", f"192.0.2.{n}", confirmed=False) for n in range(4)]
    assert [budget.take(flow, 100 * MIB) for flow in flows] == [True, True, False, False]
    assert budget.take(lease(), 100 * MIB), "a confirmed account still has its own"


def test_an_exempt_flow_is_held_by_the_total_alone():
    budget = disk_budget(1024 * MIB)
    exempt = lease(None, None)
    assert budget.take(exempt, 1024 * MIB)
    assert not budget.take(exempt, 1)


def test_one_address_takes_a_quarter_of_memory():
    budget = memory_budget(256 * MIB)
    assert budget.take(lease("@a:x"), 60 * MIB)
    assert not budget.take(lease("@b:x"), 5 * MIB)
    assert budget.take(lease("@b:x", "192.0.2.2"), 5 * MIB)


def test_a_budget_of_nothing_takes_nothing():
    assert not ByteBudget(0).take(lease(), 1)
