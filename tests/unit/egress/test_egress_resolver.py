import asyncio
import errno
import threading
import time

import pytest

from proxy.egress.resolver import Resolver, ResolverBusyError, UnresolvedError, system_lookup


class Names:
    """A look-up whose slow names wait until they are let go."""

    def __init__(self):
        self.gate = threading.Event()
        self.asked = []

    def __call__(self, host):
        self.asked.append(host)
        if host.startswith("slow"):
            self.gate.wait(5)
        if host.startswith("full"):
            raise OSError(errno.EMFILE, "Too many open files")
        if host.startswith("none"):
            raise OSError("no such name")
        return ["192.0.2.1"]


def resolving(tell, timeout_s=5.0):
    names = Names()
    now = [0.0]

    async def whole():
        resolver = Resolver(asyncio.get_running_loop(), lambda: now[0] + time.monotonic(), names, timeout_s)
        try:
            await tell(resolver, names, now)
        finally:
            names.gate.set()
            while resolver.running:  # noqa: ASYNC110
                await asyncio.sleep(0)

    asyncio.run(whole())


def test_those_who_ask_at_once_share_one_look_up_which_is_kept_for_a_moment():
    async def tell(resolver, names, now):
        assert await asyncio.gather(*(resolver.resolve("a") for _ in range(10))) == [["192.0.2.1"]] * 10
        assert await resolver.resolve("a") == ["192.0.2.1"]
        assert names.asked == ["a"]
        now[0] += 6.0
        await resolver.resolve("a")
        assert names.asked == ["a", "a"]

    resolving(tell)


def test_a_name_without_an_address_is_unresolved_and_not_kept():
    async def tell(resolver, names, _):
        for _ in range(2):
            with pytest.raises(UnresolvedError):
                await resolver.resolve("none")
        assert names.asked == ["none"] * 2

    resolving(tell)


def test_a_name_that_could_not_be_looked_up_for_want_of_descriptors_is_not_called_unresolved():
    async def tell(resolver, _, __):
        with pytest.raises(OSError, match="Too many open files"):
            await resolver.resolve("full")

    resolving(tell)


def test_a_name_that_takes_too_long_is_unresolved():
    async def tell(resolver, _, __):
        with pytest.raises(UnresolvedError):
            await resolver.resolve("slow")

    resolving(tell, timeout_s=0.02)


def test_slow_names_leave_threads_to_names_that_were_quick():
    async def tell(resolver, names, now):
        await resolver.resolve("quick")
        now[0] += 6.0
        slow = [asyncio.ensure_future(resolver.resolve(f"slow{number}")) for number in range(50)]
        await asyncio.sleep(0)
        assert resolver.running == 12
        assert await resolver.resolve("quick") == ["192.0.2.1"]
        with pytest.raises(ResolverBusyError):
            await resolver.resolve("unknown")
        names.gate.set()
        await asyncio.gather(*slow, return_exceptions=True)

    resolving(tell, timeout_s=0.05)


def test_a_look_up_nobody_waits_for_any_more_is_not_begun():
    async def tell(resolver, names, _):
        first = [asyncio.ensure_future(resolver.resolve(f"slow{number}")) for number in range(12)]
        await asyncio.sleep(0)
        left = asyncio.ensure_future(resolver.resolve("left"))
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        names.gate.set()
        await asyncio.gather(*first)
        assert "left" not in names.asked
        assert await resolver.resolve("left") == ["192.0.2.1"]

    resolving(tell)


def test_the_system_knows_this_machine():
    assert set(system_lookup("localhost")) <= {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match=r".+"):
        system_lookup("name.invalid")
