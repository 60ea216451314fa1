// Plots as SVG, each with a sentence that says the same.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300, HEIGHT = 90, TOP = 14, BOTTOM = 14;

export function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// A bar of parts: [[class, number], ...] of a whole.
export function bar(parts, whole, label) {
  const total = Math.max(whole, parts.reduce((sum, [, count]) => sum + count, 0), 1e-9);
  const picture = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": label });
  picture.append(svg("rect", { class: "track", x: 0, y: 0, width: 100, height: 10, rx: 1 }));
  let x = 0;
  for (const [kind, count] of parts) {
    const width = (100 * count) / total;
    picture.append(svg("rect", { class: kind, x, y: 0, width, height: 10 }));
    x += width;
  }
  return picture;
}

// Lines over time. `lines`: [{name, values}], `bands`: [{from, to, kind}] by index; all values have one scale from 0.
export function plot(title, unit, lines, bands = []) {
  const count = Math.max(...lines.map((line) => line.values.length), 2);
  const most = Math.max(...lines.flatMap((line) => line.values), 0);
  const top = nice(most);
  const x = (index) => ((WIDTH - 2) * index) / (count - 1) + 1;
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / top;
  const last = lines.map((line) => `${line.name} ${short(line.values.at(-1) ?? 0)}`).join(", ");
  const label = `${title}: now ${last} ${unit}; at most ${short(most)} in the time shown`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const band of bands) {
    const width = Math.max(x(band.to) - x(band.from), 1.5);
    picture.append(svg("rect", { class: band.kind, x: x(band.from), y: TOP, width, height: HEIGHT - TOP - BOTTOM }));
  }
  for (const value of [0, top]) {
    picture.append(svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(value), y2: y(value) }));
  }
  lines.forEach((line, number) => {
    const points = line.values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    picture.append(svg("polyline", { class: `l${number}`, points }));
  });
  picture.append(svg("text", { x: 0, y: 10 }, `${short(top)} ${unit}`));
  const caption = document.createElement("figcaption");
  caption.append(`${title}: `);
  lines.forEach((line, number) => {
    const name = document.createElement("b");
    name.className = `l${number}`;
    name.textContent = `${line.name} ${short(line.values.at(-1) ?? 0)}`;
    caption.append(number ? ", " : "", name);
  });
  const figure = document.createElement("figure");
  figure.append(caption, picture);
  return figure;
}

function nice(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= most);
}

export function short(value) {
  if (Number.isInteger(value) && Math.abs(value) < 10000) return String(value);
  if (Math.abs(value) >= 10000) return `${(value / 1000).toFixed(value < 1e5 ? 1 : 0)}k`;
  return value.toFixed(value < 10 ? 2 : 1);
}
