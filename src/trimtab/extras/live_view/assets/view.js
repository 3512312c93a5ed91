// The page: a list that follows the directory, curves of what is ticked, one run closely. It only ever asks; nothing is sent.
"use strict";
const RETURN = "rollout/ep_rew_mean";
const FIRST = [RETURN, "train/approx_kl", "train/clip_fraction", "train/explained_variance", "train/entropy_loss", "time/fps"];
const SOON = 2000, LATER = 8000, ROWS = 200;
const $ = (id) => document.getElementById(id);
const state = { runs: [], studies: [], ticked: [], focus: null, metrics: new Set(FIRST), names: new Set(FIRST), curves: new Map(), colors: new Map(), rows: ROWS };
const rows = new Map(); // id -> the row's parts
const heard = new Map(); // url -> {tag, body}: what was said last

function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

// The answer and whether it is news; what has not changed costs a 304.
async function ask(url) {
  const known = heard.get(url);
  const answer = await fetch(url, { cache: "no-store", headers: known ? { "If-None-Match": known.tag } : {} });
  if (answer.status === 304) return { body: known.body, news: false };
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  const body = await answer.json();
  heard.set(url, { tag: answer.headers.get("ETag"), body });
  if (heard.size > 400) heard.delete(heard.keys().next().value);
  return { body, news: true };
}
const curveUrl = (id) => `/api/curve?id=${encodeURIComponent(id)}${[...state.metrics].map((m) => `&metric=${encodeURIComponent(m)}`).join("")}`;

// The list ------------------------------------------------------------------------------------------------

async function refresh() {
  const { body, news } = await ask("/api/runs");
  document.querySelector(".gone")?.remove();
  if (news) {
    const before = new Map(state.runs.map((run) => [run.id, run.modified]));
    state.runs = body.runs;
    state.studies = body.studies;
    $("where").textContent = body.root;
    if (!state.started && state.runs.length) start();
    drawCounts();
    drawStudies();
    drawRuns();
    for (const run of state.runs) if (before.get(run.id) !== run.modified) rows.get(run.id)?.stale?.();
  }
  await Promise.all([drawCurves(), drawDetail()]);
  document.documentElement.dataset.ready = "1";
}

// Once there are runs: what the address says is ticked, or the newest few.
function start() {
  state.started = true;
  const wanted = decodeURIComponent(location.hash.slice(1)).split("|").filter((id) => state.runs.some((run) => run.id === id));
  const newest = [...state.runs].sort((a, b) => b.modified - a.modified).slice(0, 3).map((run) => run.id);
  state.ticked = wanted.length ? wanted : newest;
  state.focus = state.ticked[0] || null;
}

function drawCounts() {
  const count = {};
  for (const run of state.runs) count[run.status] = (count[run.status] || 0) + 1;
  const said = Object.entries(count).map(([status, n]) => `${n} ${status}`);
  $("counts").textContent = state.runs.length ? `${state.runs.length} runs: ${said.join(", ")}` : "no runs yet; they appear here as they start";
}

function drawStudies() {
  $("studies").replaceChildren(...state.studies.map((study) => {
    const link = study.page ? h("a", { href: `/page?id=${encodeURIComponent(study.id)}`, target: "_blank", rel: "noopener" }, "its page") : null;
    const only = h("button", { type: "button", onclick: () => { $("filter").value = study.id === "." ? "" : `${study.id}/`; drawRuns(); } }, `${study.done} of ${study.runs} runs`);
    return h("div", { class: "study" },
      h("p", {}, h("strong", {}, `${study.kind} `), study.id, " ", h("span", { class: `status ${study.status}` }, study.status)),
      study.sentence ? h("p", { class: "small" }, study.sentence) : null,
      h("p", {}, only, " ", link));
  }));
}

function wantedRuns() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = state.runs.filter((run) => {
    const text = `${run.id} ${run.env_id} ${run.algo} seed${run.seed} ${run.status}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const by = $("order").value;
  const least = (value) => (value === null || value === undefined ? -Infinity : value);
  return found.sort((a, b) => (by === "id" ? a.id.localeCompare(b.id, undefined, { numeric: true }) : least(b[by]) - least(a[by]) || a.id.localeCompare(b.id)));
}

function drawRuns() {
  const wanted = wantedRuns(), shown = wanted.slice(0, state.rows);
  const children = shown.map((run) => updateRow(run).row);
  if (wanted.length > shown.length) children.push(h("button", { class: "more", type: "button", onclick: () => { state.rows += ROWS; drawRuns(); } }, `${wanted.length - shown.length} more`));
  const list = $("runs");
  if (children.length !== list.children.length || children.some((child, i) => child !== list.children[i])) list.replaceChildren(...children);
}

function updateRow(run) {
  const parts = rows.get(run.id) || newRow(run.id);
  parts.run = run;
  parts.what.textContent = `${run.algo} on ${run.env_id}, seed ${run.seed}, ${run.batch.join(" × ")}`;
  parts.status.textContent = run.status;
  parts.status.className = `status ${run.status}`;
  parts.value.textContent = run.return === null || run.return === undefined ? "–" : short(run.return);
  parts.steps.textContent = `${short(run.step)} of ${short(run.total)}`;
  parts.bar.style.width = `${run.total ? Math.min(100, (100 * run.step) / run.total) : 0}%`;
  parts.tick.checked = state.ticked.includes(run.id);
  parts.tick.style.accentColor = parts.tick.checked ? colorOf(run.id) : "";
  parts.row.classList.toggle("focus", state.focus === run.id);
  return parts;
}

function newRow(id) {
  const parts = { tick: h("input", { type: "checkbox", "aria-label": `tick ${id}`, onchange: () => tick(id, parts.tick.checked) }) };
  parts.what = h("span", { class: "what" });
  parts.status = h("span", { class: "status" });
  parts.value = h("span", { class: "number", title: "return of the last 100 episodes" });
  parts.steps = h("span", { class: "small number" });
  parts.bar = h("i");
  parts.spark = svg("svg", { class: "spark", viewBox: "0 0 84 26" });
  parts.row = h("div", { class: "run" }, parts.tick, h("button", { class: "name", type: "button", onclick: () => focus(id) }, id), parts.spark, parts.value,
    h("span"), h("span", { class: "what" }, parts.status, " ", parts.what), h("span", { class: "progress" }, parts.steps, h("span", { class: "bar" }, parts.bar)));
  parts.row.dataset.id = id;
  parts.stale = () => { parts.drawn = false; watching.unobserve(parts.row); watching.observe(parts.row); };
  rows.set(id, parts);
  watching.observe(parts.row);
  return parts;
}

// Small curves are asked for when their row is on the screen.
const watching = new IntersectionObserver((seen) => {
  for (const entry of seen) if (entry.isIntersecting) drawSpark(entry.target.dataset.id);
}, { root: null, rootMargin: "120px" });

async function drawSpark(id) {
  const parts = rows.get(id);
  if (parts.drawn) return;
  parts.drawn = true;
  try {
    const { body } = await ask(`/api/curve?small=1&id=${encodeURIComponent(id)}`);
    spark(parts.spark, body.step, body.metrics[RETURN]);
  } catch { parts.drawn = false; }
}

// What is ticked ------------------------------------------------------------------------------------------

function colorOf(id) {
  if (!state.colors.has(id)) {
    const used = new Set(state.ticked.map((other) => state.colors.get(other)));
    state.colors.set(id, COLORS.find((color) => !used.has(color)) || COLORS[state.colors.size % COLORS.length]);
  }
  return state.colors.get(id);
}

function tick(id, on) {
  state.ticked = on ? [...state.ticked, id] : state.ticked.filter((other) => other !== id);
  if (!on) state.colors.delete(id);
  remember();
  drawRuns();
  drawCurves(true);
}

function focus(id) {
  state.focus = id;
  if (!state.ticked.includes(id)) tick(id, true);
  drawRuns();
  drawDetail(true).then(() => $("detail").scrollIntoView({ behavior: "smooth", block: "nearest" }));
}

function remember() {
  history.replaceState(null, "", state.ticked.length ? `#${encodeURIComponent(state.ticked.join("|"))}` : location.pathname);
}

async function drawCurves(anyway = false) {
  state.ticked = state.ticked.filter((id) => state.runs.some((run) => run.id === id));
  const answers = await Promise.all(state.ticked.map((id) => ask(curveUrl(id)).catch(() => null)));
  let news = anyway;
  answers.forEach((answer, i) => {
    if (!answer) return;
    news ||= answer.news || !state.curves.has(state.ticked[i]);
    state.curves.set(state.ticked[i], answer.body);
    for (const name of answer.body.names) state.names.add(name);
  });
  for (const id of state.curves.keys()) if (!state.ticked.includes(id)) state.curves.delete(id);
  if (!news && $("charts").children.length) return;
  $("hint").hidden = state.ticked.length > 0;
  drawChips();
  $("legend").replaceChildren(...state.ticked.map((id) => { const dot = h("i"); dot.style.background = colorOf(id); return h("span", {}, dot, id); }));
  drawCharts();
  await drawDifferences();
}

function drawChips() {
  const names = state.ticked.length ? [...state.names].sort() : [];
  const chosen = names.filter((name) => state.metrics.has(name)), others = names.filter((name) => !state.metrics.has(name));
  const more = h("select", { "aria-label": "add a metric", onchange: () => { state.metrics.add(more.value); drawCurves(true); } }, h("option", { value: "" }, "add a metric"), ...others.map((name) => h("option", { value: name }, name)));
  $("chips").replaceChildren(...chosen.map((name) => h("button", { type: "button", "aria-pressed": "true", title: "take it away", onclick: () => { state.metrics.delete(name); drawCurves(true); } }, name)), ...(others.length ? [more] : []));
}

function drawCharts() {
  const wanted = state.ticked.length ? [...state.metrics] : [];
  const kept = new Map([...$("charts").children].map((figure) => [figure.dataset.metric, figure]));
  const figures = wanted.map((name) => {
    const figure = kept.get(name) || h("figure", {}, h("figcaption", {}, name === RETURN ? "return of the last 100 episodes" : name));
    figure.dataset.metric = name;
    return figure;
  });
  $("charts").replaceChildren(...figures);
  figures.forEach((figure, i) => {
    const series = state.ticked.map((id) => ({ id, color: colorOf(id), curve: state.curves.get(id) })).filter((one) => one.curve).map((one) => ({ ...one, x: one.curve.step, y: one.curve.metrics[wanted[i]] || [] }));
    plot(figure, series, i ? 150 : 240);
  });
}

async function drawDifferences() {
  const target = $("differences");
  if (state.ticked.length < 2) return target.replaceChildren();
  const ids = state.ticked.slice(0, 8);
  const configs = await Promise.all(ids.map((id) => ask(`/api/config?id=${encodeURIComponent(id)}`).then((a) => a.body, () => ({}))));
  const names = [...new Set(configs.flatMap((config) => Object.keys(config)))];
  const differing = names.filter((name) => new Set(configs.map((config) => JSON.stringify(config[name]))).size > 1);
  target.replaceChildren(h("h2", {}, "What differs"), differing.length
    ? table(["field", ...ids], differing.map((name) => [name, ...configs.map((config) => plain(config[name]))]))
    : h("p", { class: "small" }, "nothing: the same configuration and seed"));
}

const plain = (value) => (value === null || value === undefined ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value));

function table(columns, body) {
  const cell = (tag, content) => h(tag, {}, content);
  const head = columns.some(Boolean) ? h("thead", {}, h("tr", {}, ...columns.map((c) => cell("th", c)))) : null;
  return h("div", { class: "scroll" }, h("table", {}, head, h("tbody", {}, ...body.map((row) => h("tr", {}, ...row.map((c) => cell("td", c)))))));
}

// One run closely -----------------------------------------------------------------------------------------

async function drawDetail(anyway = false) {
  const id = state.focus, target = $("detail");
  if (!id) return target.replaceChildren();
  const { body, news } = await ask(`/api/run?id=${encodeURIComponent(id)}`).catch(() => ({ body: null }));
  if (!body || state.focus !== id || !(news || anyway || target.dataset.id !== id)) return;
  target.dataset.id = id;
  const open = target.querySelector("details")?.open;
  const findings = body.findings.map((f) => [h("span", { class: f.verdict }, f.verdict), f.check, h("div", {}, f.seen, f.advice ? h("div", { class: "small" }, `→ ${f.advice}`) : null)]);
  const probes = body.probes.map((p) => [p.quantity, p.split, short(p.step), p.resolved ? short(p.value) : "not resolved", p.lo === null ? "" : `${short(p.lo)} to ${short(p.hi)}`, p.unit]);
  const evaluations = body.evaluations.slice(-5).map((e) => [short(e["time/total_timesteps"]), short(e["eval/mean_reward"]), `${short(e["eval/iqr_low"])} to ${short(e["eval/iqr_high"])}`, plain(e["eval/episodes"])]);
  const all = h("details", { open }, h("summary", {}, "all fields"), table(["field", "value"], Object.entries(body.config).map(([name, value]) => [name, plain(value)])));
  target.replaceChildren(...[
    h("h2", {}, id),
    body.problem ? h("p", { class: "act" }, body.problem) : null,
    table(["", ""], Object.entries(body.derived)),
    body.sentence ? h("h3", {}, "What the records say") : null,
    body.sentence ? h("p", {}, body.sentence) : null,
    findings.length ? table(["", "check", "what was seen"], findings) : null,
    body.next ? h("pre", {}, body.next) : null,
    probes.length ? h("h3", {}, "What its gradient is made of (probes)") : null,
    probes.length ? table(["quantity", "N × T", "step", "value", "95% interval", "unit"], probes) : null,
    evaluations.length ? h("h3", {}, "Evaluations, exploration off") : null,
    evaluations.length ? table(["step", "mean", "quartiles", "episodes"], evaluations) : null,
    h("h3", {}, "Not the default"),
    table(["field", "value"], body.changed.map((name) => [name, plain(body.config[name])])),
    all,
  ].filter(Boolean));
}

// Going on ------------------------------------------------------------------------------------------------

async function follow() {
  let wait = LATER;
  try {
    if (!document.hidden) await refresh();
    if (!state.runs.length || state.runs.some((run) => run.status === "running")) wait = SOON;
  } catch (error) {
    if (!document.querySelector(".gone")) document.body.prepend(h("div", { class: "gone", role: "alert" }, "trimtab view has been closed, or does not answer; runs go on without it"));
  }
  setTimeout(follow, wait);
}

$("filter").addEventListener("input", drawRuns);
$("order").addEventListener("change", drawRuns);
$("none").addEventListener("click", () => { for (const id of [...state.ticked]) tick(id, false); });
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawCharts, 150); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh().catch(() => null); });
follow();
