// Run in the clients' folder: a websocket server on 127.0.0.1 at the port named, that sends each message back, compressed as asked for.
// It answers requests that are no upgrade as a homeserver that is there.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.cwd()}/package.json`));
const { WebSocketServer } = require("ws");
const LIMITS = { maxPayload: 32 * 1024 * 1024, maxFragments: 0, maxBufferedChunks: 0 }; // the suite asks for more than ws allows

const server = createServer((request, response) => {
  response.setHeader("Content-Type", "application/json");
  response.end('{"versions":["v1.11"],"unstable_features":{}}');
});
new WebSocketServer({ server, ...LIMITS, perMessageDeflate: true }).on("connection", (socket) => {
  socket.on("error", () => {}); // a wrong frame, which ws has answered with a close
  socket.on("message", (data, binary) => socket.send(data, { binary }));
});
server.listen(Number(process.argv[2]), "127.0.0.1");
