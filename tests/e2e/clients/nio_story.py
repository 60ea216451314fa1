"""Run in the clients' venv: one story told with matrix-nio, its facts printed as JSON.

Reads {"url", "alice": {"user", "password"}, "bob": {...}} from stdin. No fact differs from run to run.
"""

import asyncio
import hashlib
import io
import json
import sys
import time

from nio import AsyncClient, AsyncClientConfig

SIZE = 5 * 1024 * 1024
QUIET_S = 0.5


async def tell(url, people):
    config = AsyncClientConfig(encryption_enabled=False, max_timeouts=1)
    alice, bob = (AsyncClient(url, people[name]["user"], config=config) for name in ("alice", "bob"))
    try:
        return await _story(alice, bob, people)
    finally:
        await alice.close()
        await bob.close()


async def _story(alice, bob, people):
    facts = {}
    logins = [await one.login(people[name]["password"]) for one, name in ((alice, "alice"), (bob, "bob"))]
    facts["login"] = [[kind(login), login.user_id] for login in logins]
    room = await alice.room_create(name="A room")
    room_id = room.room_id
    invite = await alice.room_invite(room_id, bob.user_id)
    first = await bob.sync(timeout=0)
    facts["room"] = [kind(room), kind(invite), room_id in first.rooms.invite, kind(await bob.join(room_id))]
    facts["woken"] = await _woken(alice, bob, room_id)
    facts["media"] = await _media(alice, bob)
    facts["messages"] = await _pages(alice, bob, room_id)
    facts["left"] = [kind(await bob.room_leave(room_id)), kind(await alice.room_leave(room_id))]
    facts["logout"] = [kind(await alice.logout()), kind(await bob.logout()), kind(await alice.whoami())]
    return facts


async def _woken(alice, bob, room_id):
    await bob.sync(timeout=0)
    while True:  # until nothing more comes, so that only the message can wake the poll
        poll = asyncio.create_task(bob.sync(timeout=30_000))
        done, _ = await asyncio.wait({poll}, timeout=QUIET_S)
        if not done:
            break
    began_at = time.monotonic()
    sent = await say(alice, room_id, "wake up")
    woken = await poll
    bodies = [event.body for event in woken.rooms.join[room_id].timeline.events]
    return [kind(sent), kind(woken), bodies, time.monotonic() - began_at < 10]


async def _media(alice, bob):
    content = bytes(i * 31 % 251 for i in range(4096)) * (SIZE // 4096)
    uploaded, _ = await alice.upload(io.BytesIO(content), "application/octet-stream", "five", filesize=SIZE)
    downloaded = await bob.download(uploaded.content_uri)
    same = hashlib.sha256(downloaded.body).digest() == hashlib.sha256(content).digest()
    return [kind(uploaded), kind(downloaded), len(downloaded.body), same]


async def _pages(alice, bob, room_id):
    for number in range(12):
        await say(alice, room_id, f"message {number}")
    here = (await bob.sync(timeout=0)).next_batch
    pages = []
    while here is not None:
        page = await bob.room_messages(room_id, start=here, limit=5)
        pages.append([getattr(event, "body", None) or kind(event) for event in page.chunk])
        here = page.end
    return pages


async def say(who, room_id, text):
    return await who.room_send(room_id, "m.room.message", {"msgtype": "m.text", "body": text})


def kind(response):
    return type(response).__name__


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    sys.stdout.write(json.dumps(asyncio.run(tell(asked["url"], asked))) + "\n")
