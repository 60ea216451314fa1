"""Run in the clients' venv: a matrix-nio client that syncs until it hears `end`; prints a JSON line for every message.

Reads {"url", "user_id", "device_id", "access_token"} from stdin; the first line is "ready".
"""

import asyncio
import json
import sys

from nio import AsyncClient, AsyncClientConfig, RoomMessageText

POLL_MS = 8_000


async def listen(asked):
    client = AsyncClient(asked["url"], config=AsyncClientConfig(encryption_enabled=False))
    client.restore_login(asked["user_id"], asked["device_id"], asked["access_token"])
    heard = asyncio.Event()

    async def message(_, event):
        say(event.body)
        if event.body == "end":
            heard.set()

    try:
        await client.sync(timeout=0)
        client.add_event_callback(message, RoomMessageText)
        syncing = asyncio.create_task(client.sync_forever(timeout=POLL_MS))
        say("ready")
        await asyncio.wait({syncing, asyncio.create_task(heard.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if syncing.done():
            syncing.result()
    finally:
        await client.close()


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(listen(json.loads(sys.stdin.readline())))
