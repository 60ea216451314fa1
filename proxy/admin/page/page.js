// The operator's page: reads /v1/events, with a bearer token where one is asked for, and redraws what changed.

import { bar, plot, short } from "./plots.js";

const $ = (id) => document.getElementById(id);
const POINTS = 300;
const RETRY_MS = 2000;
const BREAKER = ["admitting", "refusing", "probing"];
let columns = [];
let points = [];
let picture = null;
let minute = []; // [{at, refused}], to tell the last minute's refusals by reason
let told = "";

async function follow() {
  for (;;) {
    try {
      const token = sessionStorage.getItem("token");
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const answer = await fetch("v1/events", { headers, cache: "no-store" });
      if (answer.status === 401) return login();
      if (!answer.ok) throw new Error((await answer.json()).message);
      await read(answer.body.getReader());
      throw new Error("the stream ended");
    } catch (error) {
      state(`Not connected: ${error.message}. Trying again.`, true);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

function login() {
  sessionStorage.removeItem("token");
  $("main").hidden = true;
  $("login").hidden = false;
  state("A token is needed.", true);
  $("token").focus();
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  $("token").value = "";
  $("login").hidden = true;
  follow();
});

async function read(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) take(event);
  }
}

function take(event) {
  const [, name, data] = event.match(/^event: (\w+)\ndata: (.*)$/s);
  const value = JSON.parse(data);
  if (name === "history") {
    columns = value.columns;
    points = value.points;
  } else {
    picture = value;
    remember(value.status);
    draw();
  }
}

// Between the history's points and now: a point from each picture, thinned to the history's step.
function remember(status) {
  const now = Date.now() / 1000;
  const sum = (key) => status.workers.lanes.reduce((total, lane) => total + lane[key], 0);
  const total = (counts) => Object.values(counts).reduce((all, count) => all + count, 0);
  const gate = status.homeservers[0];
  const point = {
    at: now, running: sum("running"), held: sum("held"), waiting: sum("waiting"), waits: status.waits.live,
    ghosts: status.waits.ghosts, gate_limit: gate.limit, gate_taken: gate.active + gate.held, gate_waiting: gate.waiting,
    breaker: BREAKER.indexOf(gate.breaker.state), requests: total(status.requests_total),
    refused: total(status.refused_total), reported: total(status.reported_total),
    lag_ms: status.process.loop_lag_seconds * 1000,
  };
  if (!points.length || now - points.at(-1)[0] >= 1.9) points.push(columns.map((column) => point[column]));
  points = points.slice(-POINTS);
  minute.push({ at: now, refused: { ...status.refused_total } });
  while (minute.length > 1 && now - minute[0].at > 60) minute.shift();
}

const series = (name) => points.map((point) => point[columns.indexOf(name)]);

function rates(name) {
  const counts = series(name), times = series("at");
  return counts.map((count, index) => {
    const seconds = index ? times[index] - times[index - 1] : 0;
    return seconds > 0 ? Math.max(0, count - counts[index - 1]) / seconds : 0;
  });
}

function bands() {
  const states = series("breaker"), found = [];
  states.forEach((value, index) => {
    if (!value) return;
    const open = found.at(-1);
    if (open && open.value === value && open.to === index) open.to = index + 1;
    else found.push({ value, kind: BREAKER[value], from: index, to: index + 1 });
  });
  return found.map((band) => ({ ...band, to: Math.min(band.to, states.length - 1) }));
}

function draw() {
  const { status, flows } = picture;
  $("main").hidden = false;
  drawHead(status);
  drawLanes(status.workers);
  $("plots").replaceChildren(
    plot("Workers", "", [line("running", "running"), line("held", "held"), line("in line", "waiting")]),
    plot("Requests", "/s", [
      { name: "asked", values: rates("requests") }, { name: "would be refused", values: rates("reported") },
      { name: "refused", values: rates("refused") }]),
    plot("Long polls", "", [line("live", "waits"), line("ghosts", "ghosts")]),
    plot("Gate", "", [line("limit", "gate_limit"), line("taken", "gate_taken"), line("in line", "gate_waiting")], bands()),
    plot("Loop lag", "ms", [line("lag", "lag_ms")]),
  );
  drawFlows(flows);
  drawGate(status.homeservers[0]);
  pairs("waits", [
    ["count against the limit", `${status.waits.used} of ${status.waits.limit}`], ["live", status.waits.live],
    ["ghosts", status.waits.ghosts], ["parked for their device", status.waits.parked],
    ["accounts", status.waits.accounts], ["an account, a device", `${status.waits.per_account}, ${status.waits.per_device}`],
  ]);
  drawReasons(status);
  drawProcess(status);
  drawEgress(status.egress);
}

const line = (name, column) => ({ name, values: series(column) });

function drawHead(status) {
  const reporting = Object.entries(status.modes).filter(([, mode]) => mode === "report").map(([rule]) => rule);
  $("summary").textContent =
    `${status.build.version} before ${status.homeservers[0].key} (${status.profile.name ?? "not known yet"}), ` +
    `up ${duration(status.uptime_seconds)}` + (reporting.length ? `, only reporting: ${reporting.join(", ")}` : "");
  const failing = status.upstream.pool.failing_seconds;
  const breaker = status.homeservers[0].breaker.state;
  if (status.stopping) state("Stopping.", true);
  else if (failing !== null) state("The homeserver cannot be reached.", true);
  else if (breaker !== "admitting") state(`Background work: ${breaker}.`, true);
  else if (status.workers.worst_wait_ratio > 1) state("Somebody waited longer than promised in the last hour.", true);
  else state("All is well.", false);
}

function state(text, bad) {
  if (text !== told) $("state").textContent = told = text; // said once, not every second
  $("state").classList.toggle("bad", bad);
}

function drawLanes(workers) {
  $("lanes").tBodies[0].replaceChildren(...workers.lanes.map((lane) => {
    const label = `${lane.running} running and ${lane.held} held of ${lane.workers}`;
    return row(lane.name, bar([["running", lane.running], ["held", lane.held]], lane.workers, label), lane.running,
      lane.held, lane.workers, alarm(lane.waiting, lane.waiting > 0), `${lane.oldest_wait_seconds.toFixed(1)} s`,
      alarm(lane.worst_wait_ratio.toFixed(2), lane.worst_wait_ratio > 1));
  }));
}

function drawFlows(flows) {
  const by = document.querySelector("[name=by]:checked").value;
  const rows = flows[by];
  const rank = (flow) => (by === "waits" ? flow.waits + flow.ghosts : flow[by]);
  const whole = rows.reduce((sum, flow) => sum + rank(flow), 0);
  $("flow-rows").tBodies[0].replaceChildren(...rows.map((flow) => row(flow.flow,
    bar([["running", rank(flow)]], whole, `${Math.round((100 * rank(flow)) / whole)} % of those shown`),
    flow.worker_seconds.toFixed(1), flow.running, flow.held, flow.waiting, flow.waits + flow.ghosts, flow.refused)));
}

function drawGate(gate) {
  const next = gate.breaker.next_probe_seconds;
  pairs("gate", [
    ["breaker", alarm(gate.breaker.state, gate.breaker.state !== "admitting")],
    ["for", duration(gate.breaker.since_seconds)], ["next probe in", next === null ? "–" : duration(next)],
    ["limit now, at most", `${gate.limit}, ${gate.max_limit}`], ["active", gate.active], ["held", gate.held],
    ["in line", gate.waiting], ["oldest", `${gate.oldest_wait_seconds.toFixed(1)} s`],
  ]);
}

function drawReasons(status) {
  const before = minute[0].refused;
  const reasons = Object.keys(status.refused_total)
    .filter((reason) => status.refused_total[reason] || status.reported_total[reason])
    .sort((a, b) => status.refused_total[b] - status.refused_total[a]).slice(0, 12);
  $("reasons").tBodies[0].replaceChildren(...reasons.map((reason) => row(reason,
    short(status.refused_total[reason] - (before[reason] ?? 0)), short(status.refused_total[reason]),
    short(status.reported_total[reason] ?? 0))));
}

function drawProcess(status) {
  const { connections, process, upstream, bodies, identity } = status;
  const clients = Object.values(connections.by_state).reduce((sum, count) => sum + count, 0);
  pairs("process", [
    ["clients", `${clients} of ${connections.limit}`], ["to the homeserver", `${upstream.pool.busy} busy, ${upstream.pool.idle} idle`],
    ["requests waiting for that", alarm(upstream.pool.waiting, upstream.pool.waiting > 0)],
    ["look-ups of tokens", `${identity.lookups_running} run, ${identity.lookups_queued} wait`],
    ["buffers", mebibytes(bodies.memory)], ["spool of bodies", mebibytes(bodies.requests.disk)],
    ["spool of answers", mebibytes(bodies.answers.disk)],
    ["descriptors", `${process.open_descriptors} of ${process.descriptors_limit}`],
    ["worst loop lag", alarm(`${(process.loop_lag_worst_seconds * 1000).toFixed(1)} ms`, process.loop_lag_worst_seconds > 0.1)],
    ["clients that left early", short(status.left_total)],
  ]);
}

function drawEgress(egress) {
  $("egress").hidden = egress === null;
  if (egress === null) return;
  pairs("gateways", [
    ...Object.entries(egress.gateways), ["deliveries under way", egress.deliveries_under_way],
    ["deliveries waiting", egress.deliveries_waiting],
  ]);
  $("failing").replaceChildren(...egress.failing.slice(0, 10).map((one) => {
    const item = document.createElement("li");
    item.textContent = `${one.gateway}: ${one.state}, ${one.failures} failures`;
    return item;
  }));
}

const mebibytes = (budget) => `${(budget.taken_bytes / 1048576).toFixed(1)} of ${(budget.limit_bytes / 1048576).toFixed(0)} MiB`;

function duration(seconds) {
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} days`;
}

function alarm(text, isBad) {
  const node = document.createElement("span");
  node.textContent = text;
  if (isBad) node.className = "alarm";
  return node;
}

function row(head, ...cells) {
  const made = document.createElement("tr");
  const first = document.createElement("th");
  first.scope = "row";
  first.textContent = first.title = head;
  made.append(first, ...cells.map((cell) => {
    const data = document.createElement("td");
    data.append(cell instanceof Node ? cell : String(cell));
    if (cell instanceof SVGElement) data.className = "bar";
    return data;
  }));
  return made;
}

function pairs(id, entries) {
  $(id).replaceChildren(...entries.flatMap(([name, value]) => {
    const term = document.createElement("dt"), detail = document.createElement("dd");
    term.textContent = name;
    detail.append(value instanceof Node ? value : String(value));
    return [term, detail];
  }));
}

$("order").addEventListener("change", () => picture && drawFlows(picture.flows));
follow();
