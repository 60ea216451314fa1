"""Run in the clients' venv: a matrix-nio client that pages a room's whole history as background work.

Reads {"url", "user_id", "device_id", "access_token", "room", "page", "patience"} from stdin; prints the bodies of each page as
a JSON line, the newest first, and "done". It gives a page up after `patience` seconds and asks again, as a careful client does.
"""

import asyncio
import json
import sys

from nio import AsyncClient, AsyncClientConfig

CLASS = {"Fairgate-Class": "background"}


async def backfill(asked):
    config = AsyncClientConfig(
        encryption_enabled=False, custom_headers=CLASS, request_timeout=asked["patience"], backoff_factor=0
    )
    client = AsyncClient(asked["url"], config=config)
    client.restore_login(asked["user_id"], asked["device_id"], asked["access_token"])
    here = ""
    try:
        while here is not None:
            page = await client.room_messages(asked["room"], start=here or None, limit=asked["page"])
            say([event.body for event in page.chunk if hasattr(event, "body")])
            here = page.end
        say("done")
    finally:
        await client.close()


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(backfill(json.loads(sys.stdin.readline())))
