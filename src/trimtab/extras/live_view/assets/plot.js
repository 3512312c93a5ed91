// Curves in SVG: axes with round numbers, one line per series, and what lies under the pointer.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const COLORS = ["#3b6fb6", "#e08a1e", "#3f8f5b", "#c0392b", "#7d5ba6", "#1d9aa8", "#b8618f", "#8a8f98", "#7a8b1f", "#5f6fd8", "#a0622d", "#4aa3df"];

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function short(value) {
  if (value === null || value === undefined) return "none";
  const size = Math.abs(value);
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  if (size && size < 1e-3) return value.toExponential(1);
  return String(+value.toPrecision(4));
}

// Round numbers that span a range: 0, 50, 100, ...
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

function points(one) {
  const found = [];
  one.x.forEach((x, i) => { if (x !== null && one.y[i] !== null && one.y[i] !== undefined) found.push([x, one.y[i]]); });
  return found;
}

// series: [{id, color, x: [...], y: [...]}]; draws into `figure`, whose caption stays.
function plot(figure, series, height) {
  const width = Math.max(220, figure.clientWidth || 340), left = 52, bottom = 22, right = 10, top = 8;
  const lines = series.map((one) => ({ ...one, points: points(one) })).filter((one) => one.points.length);
  figure.querySelector("svg")?.remove();
  figure.querySelector(".tip")?.remove();
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
  figure.append(drawing);
  figure.dataset.lines = lines.length;
  figure.dataset.points = lines.reduce((sum, one) => sum + one.points.length, 0);
  if (!lines.length) {
    drawing.append(svg("text", { x: left, y: height / 2 }, "not recorded by these runs"));
    return;
  }
  const xs = lines.flatMap((one) => [one.points[0][0], one.points.at(-1)[0]]), ys = lines.flatMap((one) => one.points.map((p) => p[1]));
  const xHigh = Math.max(...xs, 1);
  let low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const X = (x) => left + (x / xHigh) * (width - left - right), Y = (y) => top + (1 - (y - low) / (high - low)) * (height - top - bottom);
  for (const y of ticks(low, high, 4)) {
    drawing.append(svg("line", { x1: left, x2: width - right, y1: Y(y), y2: Y(y), class: "grid" }), svg("text", { x: left - 6, y: Y(y) + 4, "text-anchor": "end" }, short(y)));
  }
  for (const x of ticks(0, xHigh, width > 500 ? 6 : 4)) drawing.append(svg("text", { x: X(x), y: height - 6, "text-anchor": x === 0 ? "start" : X(x) > width - 24 ? "end" : "middle" }, short(x)));
  for (const one of lines) {
    const path = one.points.map((p, i) => `${i ? "L" : "M"}${X(p[0]).toFixed(1)} ${Y(p[1]).toFixed(1)}`).join("");
    drawing.append(svg("path", { d: path, class: "curve", stroke: one.color }));
    if (one.points.length === 1) drawing.append(svg("circle", { cx: X(one.points[0][0]), cy: Y(one.points[0][1]), r: 2.5, fill: one.color }));
  }
  hover(figure, drawing, lines, { X, xHigh, left, right, width, top, bottom, height });
}

function hover(figure, drawing, lines, at) {
  const cursor = svg("line", { class: "cursor", y1: at.top, y2: at.height - at.bottom, visibility: "hidden" });
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  drawing.append(cursor);
  figure.append(tip);
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect(), px = ((event.clientX - box.left) / box.width) * at.width;
    const x = Math.min(at.xHigh, Math.max(0, ((px - at.left) / (at.width - at.left - at.right)) * at.xHigh));
    const nearest = lines.map((one) => [one, one.points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a))]);
    cursor.setAttribute("x1", at.X(x)); cursor.setAttribute("x2", at.X(x)); cursor.setAttribute("visibility", "visible");
    tip.replaceChildren(...nearest.slice(0, 8).map(([one, p]) => {
      const line = document.createElement("div"), dot = document.createElement("i");
      dot.style.background = one.color;
      line.append(dot, `${short(p[1])} at ${short(p[0])}`);
      return line;
    }));
    tip.hidden = false;
    tip.style.left = `${Math.min(box.width - tip.offsetWidth, Math.max(0, (at.X(x) / at.width) * box.width + 10))}px`;
  });
  drawing.addEventListener("pointerleave", () => { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); });
}

function spark(target, x, y) {
  const found = points({ x, y });
  target.replaceChildren();
  if (found.length < 2) return;
  const ys = found.map((p) => p[1]), low = Math.min(...ys), span = Math.max(...ys) - low || 1, last = found.at(-1)[0] || 1;
  const path = found.map((p, i) => `${i ? "L" : "M"}${((p[0] / last) * 82 + 1).toFixed(1)} ${(24 - ((p[1] - low) / span) * 22).toFixed(1)}`).join("");
  target.append(svg("path", { d: path, class: "curve", stroke: "var(--accent)" }));
}
