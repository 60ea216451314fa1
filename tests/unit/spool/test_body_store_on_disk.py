"""A body store on real files and threads; orders of events are the subject of the properties."""

import asyncio
import random

import uvloop
from spool_support import watched_spool

from proxy.mechanisms.byte_budget import ByteBudget
from proxy.spool.body_store import BUDGET, FULL, TAKEN, BodyStore
from proxy.spool.stores import BodyStores, disk_budget, memory_budget

KIB = 1_024
MIB = 1_048_576
BYTES = random.Random(3).randbytes(8 * MIB)


def new_stores(directory, *, memory=256 * MIB, disk=1_024 * MIB):
    return BodyStores(
        watched_spool(directory),
        memory=memory_budget(memory),
        disk=disk_budget(disk),
        memory_bytes=64 * KIB,
    )


async def write(store, data, size=64 * KIB):
    """Append all of `data`, pausing when told."""
    room = asyncio.Event()
    store.on_room = room.set
    for start in range(0, len(data), size):
        room.clear()
        if store.append(data[start : start + size]) is not TAKEN:
            await room.wait()
        elif start % (256 * KIB) == 0:
            await asyncio.sleep(0)
    store.finish()


async def read(store, size=64 * KIB):
    """Take all there is."""
    ready, pieces = asyncio.Event(), []
    store.on_ready = ready.set
    while not store.at_end:
        data = store.take_next(size)
        if data:
            pieces.append(data)
        elif not store.at_end:
            await ready.wait()
            ready.clear()
    return b"".join(pieces)


async def end(stores, store):
    store.end()
    await stores.spool.threads.settled()
    assert stores.memory.taken == stores.disk.taken == 0
    assert stores.spool.open_files == stores.spool.disk_bytes == stores.open == 0
    stores.spool.threads.close()


def test_a_small_body_never_leaves_memory_and_starts_no_thread(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path)
        store = BodyStore(stores, "flow", "address", confirmed=True)
        assert store.append(b"ab") is TAKEN
        assert store.append(b"cd") is TAKEN
        store.finish()
        assert stores.memory.taken == 4
        assert store.take_next(100) == b"abcd"
        assert store.at_end
        assert stores.spooled_total == 0
        assert stores.spool.threads._threads == []
        await end(stores, store)

    asyncio.run(scenario())


def test_a_large_body_waits_on_disk_and_comes_back_whole(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path)
        store = BodyStore(stores, "flow", "address", confirmed=True)
        await write(store, BYTES)
        await stores.spool.threads.settled()
        assert store.complete
        assert store.total_bytes == len(BYTES)
        assert store.held_bytes <= 64 * KIB + 256 * KIB
        assert stores.memory.taken == store.held_bytes
        assert stores.disk.taken == stores.spool.disk_bytes >= len(BYTES) - 320 * KIB
        assert await read(store) == BYTES
        await end(stores, store)

    uvloop.run(scenario())


def test_bytes_are_read_while_they_are_written(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path)
        store = BodyStore(stores, "flow", "address", confirmed=True)
        _, got = await asyncio.gather(write(store, BYTES), read(store, 300 * KIB))
        assert got == BYTES
        await end(stores, store)

    uvloop.run(scenario())


def test_a_reader_that_keeps_up_uses_no_disk(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path)
        store = BodyStore(stores, "flow", "address", confirmed=True)
        reading = asyncio.get_running_loop().create_task(read(store))
        for start in range(0, len(BYTES), 64 * KIB):
            store.append(BYTES[start : start + 64 * KIB])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        store.finish()
        assert await reading == BYTES
        assert stores.spooled_total == 0
        await end(stores, store)

    asyncio.run(scenario())


def test_past_the_spools_budget_the_body_has_to_be_streamed(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path, disk=2 * MIB)  # a flow's quarter is half a mebibyte
        store = BodyStore(stores, "flow", "address", confirmed=True)
        sent = 0
        while (verdict := store.append(BYTES[sent : sent + 64 * KIB])) is not BUDGET:
            assert verdict is TAKEN
            sent += 64 * KIB
            await stores.spool.threads.settled()
        assert stores.disk.taken <= 512 * KIB
        sent += 64 * KIB
        writing = asyncio.get_running_loop().create_task(write(store, BYTES[sent:]))
        assert await read(store) == BYTES
        await writing
        await end(stores, store)

    uvloop.run(scenario())


def test_a_body_without_memory_goes_to_disk_piece_by_piece(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path, memory=0)
        store = BodyStore(stores, "flow", "address", confirmed=True)
        rooms = []
        store.on_room = lambda: rooms.append(1)
        for start in range(0, 256 * KIB, 64 * KIB):
            assert store.append(BYTES[start : start + 64 * KIB]) is FULL
            await stores.spool.threads.settled()
        assert len(rooms) == 4
        assert store.held_bytes == 0
        store.finish()
        assert await read(store) == BYTES[: 256 * KIB]
        await end(stores, store)

    asyncio.run(scenario())


def test_a_body_that_no_file_was_left_for_is_written_when_there_is_one(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path, memory=0)
        spool = stores.spool
        most, spool.max_files = spool.max_files, 0
        store = BodyStore(stores, "flow", "address", confirmed=True)
        told = []
        store.on_budget = lambda: told.append("budget")
        store.on_room = lambda: told.append("room")
        assert store.append(BYTES[: 300 * KIB]) is FULL
        await spool.threads.settled()
        store.try_again()
        await asyncio.sleep(0)
        assert store.is_blocked
        assert told == ["budget"]
        spool.max_files = most
        store.try_again()
        await spool.threads.settled()
        assert not store.is_blocked
        assert told == ["budget", "room"]
        store.finish()
        assert await read(store) == BYTES[: 300 * KIB]
        await end(stores, store)

    uvloop.run(scenario())


def test_a_spooled_body_can_be_charged_to_the_account_once_it_is_known(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path)
        store = BodyStore(stores, "192.0.2.1", "192.0.2.1", confirmed=False)
        await write(store, BYTES[:MIB])
        await stores.spool.threads.settled()
        assert stores.disk.statistics().unconfirmed_bytes == stores.disk.taken > 0
        assert store.move("@a:x", confirmed=True)
        assert stores.disk.statistics().unconfirmed_bytes == 0
        await end(stores, store)

    asyncio.run(scenario())


def test_a_move_to_a_flow_without_room_changes_nothing(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path)
        stores.disk = ByteBudget(1_024 * MIB, unconfirmed_bytes=0)
        store = BodyStore(stores, "@a:x", "192.0.2.1", confirmed=True)
        await write(store, BYTES[:MIB])
        await stores.spool.threads.settled()
        assert not store.move("192.0.2.1", confirmed=False)
        assert stores.memory.statistics().unconfirmed_bytes == 0
        await end(stores, store)

    asyncio.run(scenario())


def test_a_reader_may_end_the_body_from_within_its_callback(tmp_path):
    async def scenario():
        stores = new_stores(tmp_path)
        store = BodyStore(stores, "flow", "address", confirmed=True)
        ended = asyncio.Event()

        def ready():
            store.end()
            ended.set()

        assert store.take_next(1) == b""
        store.on_ready = ready
        for start in range(0, 4 * MIB, 64 * KIB):
            store.append(BYTES[start : start + 64 * KIB])
        await ended.wait()
        await end(stores, store)

    asyncio.run(scenario())
