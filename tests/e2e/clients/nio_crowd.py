"""Run in the clients' venv: many matrix-nio clients at once, each syncing, sending, uploading and downloading.

Reads {"url", "room", "people": [{"user_id", "device_id", "access_token"}, …], "quiet_room", "quiet": [another one, …]} from
stdin, tells "ready", and every message it sent. The quiet ones only sync, in a room where nothing is said until the end. At the
end of stdin it sends no more, waits until everybody has heard everything, and tells a report: `tried` counts attempts by kind,
`failed` are those without a good answer, as [kind, what came instead], `sent` and `heard` are bodies, `quiet` what those heard.
"""

import asyncio
import collections
import io
import json
import os
import sys

from nio import AsyncClient, AsyncClientConfig, RoomMessageText

POLL_MS = 30_000
#: Ten messages are all of a sync otherwise, and more come while a client waits to ask again.
WHOLE = {"room": {"timeline": {"limit": 1000}}}
HEARD_WITHIN_S = 45.0
LARGE = 200_000  # more than is kept in memory of one body
KINDS = {"sync": "poll", "send": "send", "upload": "upload", "download": "download"}


class Watched(AsyncClient):
    """Keeps what came of every attempt: nio itself tries again until one succeeds."""

    def __init__(self, asked, person, tried, failed):
        super().__init__(asked["url"], config=AsyncClientConfig(encryption_enabled=False))
        self.restore_login(person["user_id"], person["device_id"], person["access_token"])
        self.heard = collections.Counter()
        self._tried = tried
        self._failed = failed

    async def send(self, method, path, *args, **more):
        kind = next((name for word, name in KINDS.items() if f"/{word}" in path), "other")
        self._tried[kind] += 1
        if self.client_session:
            self.client_session._retry_connection = False  # else it hides one failure of each request
        try:
            answer = await super().send(method, path, *args, **more)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._failed.append((kind, repr(error)))
            raise
        if answer.status != 200:
            reason = answer.headers.get("Fairgate-Reason", "of the homeserver")
            self._failed.append((kind, f"{answer.status} {reason}"))
        return answer


async def hear(client, here):
    async def message(room, event):
        if room.room_id == here:
            client.heard[event.body] += 1

    client.add_event_callback(message, RoomMessageText)
    await client.sync_forever(timeout=POLL_MS, sync_filter=WHOLE)


async def speak(client, room, number, ended, sent):
    count = 0
    while not ended.is_set():
        body = f"{client.user_id} {number} {count}"
        sent.append(body)
        await client.room_send(room, "m.room.message", {"msgtype": "m.text", "body": body})
        say(body)
        count += 1


async def carry(client, ended):
    while not ended.is_set():
        content = os.urandom(LARGE)
        uploaded, _ = await client.upload(io.BytesIO(content), "application/octet-stream", filesize=LARGE)
        downloaded = await client.download(uploaded.content_uri)
        if downloaded.body != content:
            client._failed.append(("download", "other bytes"))


async def crowd(asked):
    tried, failed, sent = collections.Counter(), [], []
    clients = [Watched(asked, person, tried, failed) for person in asked["people"]]
    quiet = [Watched(asked, person, tried, failed) for person in asked["quiet"]]
    for client in (*clients, *quiet):
        await client.sync(timeout=0)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    listening = [asyncio.create_task(hear(client, asked["room"])) for client in clients]
    listening += [asyncio.create_task(hear(client, asked["quiet_room"])) for client in quiet]
    say("ready")
    talking = [
        asyncio.create_task(speak(client, asked["room"], n, ended, sent))
        for client in clients
        for n in (0, 1)
    ]
    carrying = [asyncio.create_task(carry(client, ended)) for client in clients]
    try:
        await asyncio.gather(*talking, *carrying)
        await clients[0].room_send(
            asked["quiet_room"], "m.room.message", {"msgtype": "m.text", "body": "end"}
        )
        async with asyncio.timeout(HEARD_WITHIN_S):
            while any(client.heard.keys() < set(sent) for client in clients) or not all(
                client.heard for client in quiet
            ):
                await asyncio.wait(listening, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        pass  # the report says what was not heard
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        for client in (*clients, *quiet):
            await client.close()
    heard = [dict(client.heard) for client in clients]
    say(
        {
            "tried": tried,
            "failed": failed,
            "sent": sent,
            "heard": heard,
            "quiet": [dict(one.heard) for one in quiet],
        }
    )


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(crowd(json.loads(sys.stdin.readline())))
