"""Threads as they are, and a way to wait until they have nothing to do."""

import asyncio

from proxy.spool.spool import Spool
from proxy.spool.threads import DiskThreads


class WatchedThreads(DiskThreads):
    def __init__(self, limit):
        super().__init__(limit)
        self.idle = asyncio.Event()

    def _finished(self, done, result, error):
        try:
            super()._finished(done, result, error)
        finally:
            if not self.in_flight:
                self.idle.set()

    async def settled(self):
        """Wait until all operations ended and their ends were told."""
        async with asyncio.timeout(5):
            while self.in_flight:
                self.idle.clear()
                await self.idle.wait()


def watched_spool(directory, **kwargs):
    spool = Spool(directory, **kwargs)
    spool.threads = WatchedThreads(4)
    return spool
