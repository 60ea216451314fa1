// Run in the clients' folder: a matrix-js-sdk client that syncs until it hears `end`; prints a JSON line for every message.
// Reads {"url", "user_id", "device_id", "access_token"} from stdin; the first line is "ready".
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.cwd()}/package.json`));
const sdk = await import(pathToFileURL(require.resolve("matrix-js-sdk")));
const { logger } = await import(pathToFileURL(require.resolve("matrix-js-sdk/lib/logger.js")));
logger.setLevel?.("silent");

const POLL_MS = 8000;
Math.random = () => 0.1; // after a failed sync the SDK waits 2 to 7 s

const asked = JSON.parse(readFileSync(0, "utf8"));
const client = sdk.createClient({
  baseUrl: asked.url,
  accessToken: asked.access_token,
  userId: asked.user_id,
  deviceId: asked.device_id,
});
const say = (what) => console.log(JSON.stringify(what));

let ready = false;
client.on("sync", (state) => {
  if (state === "SYNCING" && !ready) {
    ready = true;
    say("ready");
  }
});
client.on("Room.timeline", (event) => {
  if (!ready || event.getType() !== "m.room.message") return;
  say(event.getContent().body);
  if (event.getContent().body === "end") process.exit(0);
});
await client.startClient({ initialSyncLimit: 10, pollTimeout: POLL_MS });
