// Run in the clients' folder: one story told with matrix-js-sdk, its facts printed as JSON on the last line.
// Reads {"url", "alice": {"user", "password"}, "bob": {...}} from stdin. Nothing in the facts differs from run to run.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.cwd()}/package.json`));
const sdk = await import(pathToFileURL(require.resolve("matrix-js-sdk")));
const { logger } = await import(pathToFileURL(require.resolve("matrix-js-sdk/lib/logger.js")));
logger.setLevel?.("silent");

const SIZE = 5 * 1024 * 1024;
const QUIET_MS = 500;
const SLIDING = "/_matrix/client/unstable/org.matrix.simplified_msc3575";
const asked = JSON.parse(readFileSync(0, "utf8"));
const facts = {};

async function logIn(name) {
  const login = await sdk.createClient({ baseUrl: asked.url }).loginRequest({
    type: "m.login.password",
    identifier: { type: "m.id.user", user: asked[name].user },
    password: asked[name].password,
  });
  const { access_token: accessToken, user_id: userId, device_id: deviceId } = login;
  facts[`login of ${name}`] = [userId, Object.keys(login).sort()];
  return sdk.createClient({ baseUrl: asked.url, accessToken, userId, deviceId });
}

const keys = (answer) => Object.keys(answer).sort();
const sync = (who, since, timeout) =>
  who.http.authedRequest("GET", "/sync", since ? { since, timeout } : { timeout }, undefined, { localTimeoutMs: 60000 });
const bodies = (events) => events.map((event) => event.content.body ?? event.type);

const alice = await logIn("alice");
const bob = await logIn("bob");

const { room_id: roomId } = await alice.createRoom({ name: "A room" });
facts.invite = await alice.invite(roomId, bob.getUserId());
const invited = await sync(bob, undefined, 0);
facts.invited = roomId in invited.rooms.invite;
facts.joined = (await bob.joinRoom(roomId)).roomId === roomId;

// A long poll of its own, woken by a message and by nothing else.
let since = invited.next_batch;
let poll;
for (;;) {
  poll = sync(bob, since, 30000);
  const quiet = await Promise.race([poll, new Promise((done) => setTimeout(done, QUIET_MS, null))]);
  if (quiet === null) break;
  since = quiet.next_batch;
}
const began = Date.now();
facts.sent = keys(await alice.sendTextMessage(roomId, "wake up"));
const woken = await poll;
facts.woken = [bodies(woken.rooms.join[roomId].timeline.events), Date.now() - began < 10000];

// The SDK's own sync loop.
const heard = new Promise((done) => {
  bob.on("Room.timeline", (event) => event.getContent().body === "are you there" && done(true));
});
await bob.startClient({ initialSyncLimit: 5 });
await alice.sendTextMessage(roomId, "are you there");
facts.heard = await heard;
bob.stopClient();

const list = { ranges: [[0, 20]], required_state: [["m.room.name", ""]], timeline_limit: 3 };
const slid = await bob.http.authedRequest("POST", "/sync", { timeout: 0 }, { lists: { all: list } }, { prefix: SLIDING });
facts.sliding = [keys(slid).includes("pos"), slid.rooms[roomId].name, bodies(slid.rooms[roomId].timeline)];

const content = Buffer.alloc(SIZE, Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 31) % 251)));
const { content_uri: uri } = await alice.uploadContent(content, { type: "application/octet-stream", name: "five" });
const place = bob.mxcUrlToHttp(uri, undefined, undefined, undefined, false, true, true);
const download = await fetch(place, { headers: { Authorization: `Bearer ${bob.getAccessToken()}` } });
const got = Buffer.from(await download.arrayBuffer());
const digest = (bytes) => createHash("sha256").update(bytes).digest("hex");
facts.media = [download.status, got.length, digest(got) === digest(content)];

for (let number = 0; number < 12; number += 1) await alice.sendTextMessage(roomId, `message ${number}`);
facts.pages = [];
for (let here = (await sync(bob, woken.next_batch, 0)).next_batch; here; ) {
  const page = await bob.createMessagesRequest(roomId, here, 5, "b");
  facts.pages.push(bodies(page.chunk));
  here = page.end;
}

facts.left = [await bob.leave(roomId), await alice.leave(roomId)];
facts.logout = [await alice.logout(true), await bob.logout(true)];
facts.after = await alice.whoami().then(keys, (error) => [error.errcode, error.httpStatus]);
console.log(JSON.stringify(facts));
process.exit(0);
