// Run in the clients' folder: plays all cases of Autobahn's fuzzing server as the agent named, sending each message back.
// Arguments: the port to connect to, the server's own port, which it wants in Host, and the agent; without one the server writes its reports.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.cwd()}/package.json`));
const { WebSocket } = require("ws");
const LIMITS = { maxPayload: 32 * 1024 * 1024, maxFragments: 0, maxBufferedChunks: 0 }; // the suite asks for more than ws allows
const [to, port, agent] = process.argv.slice(2);

// Resolves with the last message once the socket is closed.
function play(target, heard = () => {}) {
  return new Promise((resolve, reject) => {
    let last;
    let open = false;
    const socket = new WebSocket(`ws://127.0.0.1:${to}${target}`, {
      headers: { Host: `127.0.0.1:${port}` },
      ...LIMITS,
      perMessageDeflate: true,
    });
    socket.on("open", () => (open = true));
    socket.on("error", (error) => open || reject(error)); // once open: a wrong frame, which ws has answered with a close
    socket.on("message", (data, binary) => {
      last = data;
      heard(socket, data, binary);
    });
    socket.on("close", () => resolve(last));
  });
}

if (!agent) {
  await play("/updateReports?agent=all");
} else {
  const count = Number(await play("/getCaseCount"));
  for (let number = 1; number <= count; number++) {
    await play(`/runCase?case=${number}&agent=${agent}`, (socket, data, binary) => socket.send(data, { binary }));
  }
}
