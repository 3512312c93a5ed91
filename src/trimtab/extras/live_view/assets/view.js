// The page: what to look at first, the runs by study, the curves of the ticked runs, one run in detail. It only reads.
"use strict";
const RETURN = "rollout/ep_rew_mean";
const FIRST = [RETURN, "train/approx_kl", "train/clip_fraction", "train/explained_variance", "train/entropy_loss", "time/fps"];
const SOON = 2000, LATER = 8000; // ms between two looks: while something runs, and otherwise
const OPENED = 60, ROWS = 50, CONCERNS = 3; // rows in groups that are open from the start, rows of a group, concerns shown
const $ = (id) => document.getElementById(id);
const state = {
  runs: [], studies: new Map(), byId: new Map(), ticked: [], focus: null, attention: null, allConcerns: false,
  metrics: new Set(FIRST), names: new Set(FIRST), curves: new Map(), colors: new Map(), opened: new Map(), rows: new Map(),
};
const rows = new Map(), groups = new Map(); // parts of what is drawn, by id
const heard = new Map(); // url -> {tag, body}: the last answer

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

// Replaces the children of an element only where they differ, so that focus and scroll positions stay.
function fill(parent, children) {
  if (children.length !== parent.children.length || children.some((child, i) => child !== parent.children[i])) parent.replaceChildren(...children);
}

// The answer, and whether it is new; what has not changed costs a 304.
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

async function refresh() {
  const { body, news } = await ask("/api/runs");
  document.querySelector(".gone")?.remove();
  if (news) {
    const before = state.byId;
    state.runs = body.runs;
    state.byId = new Map(body.runs.map((run) => [run.id, run]));
    state.studies = new Map(body.studies.map((study) => [study.id, study]));
    $("where").textContent = body.root;
    if (!state.started && state.runs.length) start();
    drawCounts();
    drawList();
    for (const run of state.runs) if (before.get(run.id)?.modified !== run.modified) rows.get(run.id)?.stale();
  }
  await Promise.all([drawAttention(), drawCurves(), drawDetail()]);
  document.documentElement.dataset.ready = "1";
}

// Once there are runs: what the address says is ticked, otherwise the newest few of one group.
function start() {
  state.started = true;
  const wanted = decodeURIComponent(location.hash.slice(1)).split("|").filter((id) => state.byId.has(id));
  const newest = [...state.runs].sort((a, b) => b.modified - a.modified);
  state.ticked = wanted.length ? wanted : newest.filter((run) => run.group === newest[0].group).slice(0, 3).map((run) => run.id);
  state.focus = state.ticked[0] || null;
}

function drawCounts() {
  const count = {};
  for (const run of state.runs) count[run.status] = (count[run.status] || 0) + 1;
  const parts = Object.entries(count).map(([status, n]) => `${n} ${status}`);
  $("counts").textContent = state.runs.length ? `${state.runs.length} runs: ${parts.join(", ")}` : "no runs yet; they appear here as they start";
}

// Names ---------------------------------------------------------------------------------------------------

const tail = (id) => (id === "." ? $("where").textContent.split("/").pop() : id.split("/").pop());
// A run of a study by what tells it apart, any other by its folder.
const nameOf = (run) => (state.studies.has(run.group) && run.label ? run.label : tail(run.id));
const nameById = (id) => (state.byId.has(id) ? nameOf(state.byId.get(id)) : id);
const unique = (values) => [...new Set(values)];

function groupTitle(id, members) {
  const study = state.studies.get(id);
  if (!study) return id === "." ? tail(".") : id;
  const envs = unique(members.map((run) => run.env_id));
  return `${study.kind}${envs.length && envs.length < 3 ? ` of ${envs.join(" and ")}` : ""}`;
}

// Names of the ticked runs, with the group where they come from several, and in full where that is not enough.
function namesOfTicked(ids) {
  const runs = ids.map((id) => state.byId.get(id)), several = unique(runs.map((run) => run?.group)).length > 1;
  const names = runs.map((run, i) => (run ? `${several ? `${tail(run.group)}: ` : ""}${nameOf(run)}` : ids[i]));
  return names.map((name, i) => (names.indexOf(name) === names.lastIndexOf(name) ? name : ids[i]));
}

// What to look at first -----------------------------------------------------------------------------------

async function drawAttention(anyway = false) {
  const { body, news } = await ask("/api/attention");
  if (!news && !anyway) return;
  state.attention = body;
  const shown = state.allConcerns ? body.concerns : body.concerns.slice(0, CONCERNS);
  const hidden = body.concerns.length - shown.length;
  $("attention").className = body.concerns.length ? "pressing" : "";
  $("attention").replaceChildren(...[
    h("p", { class: "lead" }, body.sentence),
    ...shown.map((one, i) => concern(one, i === 0 || state.allConcerns)),
    hidden ? h("button", { class: "more", type: "button", onclick: () => { state.allConcerns = true; drawAttention(true); } }, `${hidden} more`) : null,
    body.pending ? h("p", { class: "small" }, `${body.pending} of the newest runs are not diagnosed yet`) : null,
  ].filter(Boolean));
}

function concern(one, inFull) {
  const first = h("button", { class: "link", type: "button", onclick: () => focus(one.runs[0]) }, nameById(one.runs[0]));
  const rest = one.count > 1 ? h("button", { class: "link", type: "button", onclick: () => { for (const id of one.runs.slice(0, 12)) tick(id, true); } }, `${one.count} runs`) : null;
  return h("div", { class: "concern" },
    h("p", {}, h("strong", {}, one.problem), " ", first, ...(rest ? [" and others, ", rest] : []), h("span", { class: "small" }, ` ${one.group === "." ? "" : one.group}`)),
    h("p", {}, one.seen, one.advice ? h("span", { class: "small" }, ` → ${one.advice}`) : null),
    one.command && inFull ? h("pre", {}, one.command) : null);
}

// The list ------------------------------------------------------------------------------------------------

const least = (value) => (value === null || value === undefined ? -Infinity : value);

function byOrder(key) {
  return key === "id"
    ? (a, b) => a.id.localeCompare(b.id, undefined, { numeric: true })
    : (a, b) => least(b[key]) - least(a[key]) || a.id.localeCompare(b.id, undefined, { numeric: true });
}

function wantedRuns() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [...state.runs];
  return state.runs.filter((run) => {
    const text = `${run.id} ${run.label} ${run.env_id} ${run.algo} seed ${run.seed} seed${run.seed} ${run.status}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

// Runs by group, the groups in the order of their first run.
function wantedGroups() {
  const order = byOrder($("order").value), found = new Map();
  for (const run of wantedRuns().sort(order)) {
    if (!found.has(run.group)) found.set(run.group, []);
    found.get(run.group).push(run);
  }
  if (!$("filter").value.trim()) for (const id of state.studies.keys()) if (!found.has(id)) found.set(id, []);
  return found;
}

function drawList() {
  const filtered = Boolean($("filter").value.trim());
  let room = OPENED, first = true;
  const children = [];
  for (const [id, members] of wantedGroups()) {
    const fits = filtered || first || members.length <= room || members.some((run) => run.status === "running");
    const open = state.opened.has(id) ? state.opened.get(id) : fits;
    children.push(updateGroup(id, members, open));
    if (open) room -= members.length;
    first = false;
  }
  fill($("runs"), children);
}

function updateGroup(id, members, open) {
  const parts = groups.get(id) || newGroup(id), study = state.studies.get(id);
  const title = groupTitle(id, members), done = members.filter((run) => run.status === "finished").length;
  parts.title.textContent = title;
  parts.where.textContent = study ? `${study.done} of ${study.runs} runs finished, ${id}` : `${members.length} run${members.length === 1 ? "" : "s"}`;
  parts.status.textContent = study ? study.status : done === members.length ? "finished" : members.find((run) => run.status !== "finished").status;
  parts.status.className = `status ${parts.status.textContent}`;
  parts.sentence.textContent = study?.sentence || "";
  parts.page.hidden = !study?.page;
  if (parts.box.open !== open) { parts.setting = true; parts.box.open = open; }
  if (open) {
    const shown = members.slice(0, state.rows.get(id) || ROWS), hidden = members.length - shown.length;
    parts.more.textContent = `${hidden} more`;
    fill(parts.rows, [...shown.map((run) => updateRow(run).row), ...(hidden ? [parts.more] : [])]);
  }
  return parts.box;
}

function newGroup(id) {
  const parts = { title: h("strong"), where: h("span", { class: "small" }), status: h("span"), sentence: h("p", { class: "sentence" }), rows: h("div") };
  parts.page = h("a", { href: `/page?id=${encodeURIComponent(id)}`, target: "_blank", rel: "noopener" }, "open its page");
  parts.more = h("button", { class: "more", type: "button", onclick: () => { state.rows.set(id, (state.rows.get(id) || ROWS) + 4 * ROWS); drawList(); } });
  const summary = h("summary", {}, parts.title, parts.status, parts.where);
  parts.box = h("details", { class: "group" }, summary, parts.sentence, parts.page, parts.rows);
  parts.box.addEventListener("toggle", () => {
    if (parts.setting) { parts.setting = false; return; }
    state.opened.set(id, parts.box.open);
    drawList();
  });
  groups.set(id, parts);
  return parts;
}

function updateRow(run) {
  const parts = rows.get(run.id) || newRow(run.id);
  parts.name.textContent = nameOf(run);
  parts.what.textContent = state.studies.has(run.group) ? "" : `${run.algo} on ${run.env_id}, seed ${run.seed}, ${run.batch.join(" × ")}`;
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
  parts.name = h("button", { class: "name", type: "button", title: id, onclick: () => focus(id) });
  parts.what = h("span");
  parts.status = h("span", { class: "status" });
  parts.value = h("span", { class: "number", title: "return of the last 100 episodes" });
  parts.steps = h("span", { class: "small number" });
  parts.bar = h("i");
  parts.spark = svg("svg", { class: "spark", viewBox: "0 0 84 26" });
  parts.row = h("div", { class: "run" }, parts.tick, parts.name, parts.spark, parts.value,
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

// Ticked runs ---------------------------------------------------------------------------------------------

function colorOf(id) {
  if (!state.colors.has(id)) {
    const used = new Set(state.ticked.map((other) => state.colors.get(other)));
    state.colors.set(id, COLORS.find((color) => !used.has(color)) || COLORS[state.colors.size % COLORS.length]);
  }
  return state.colors.get(id);
}

function tick(id, on) {
  state.ticked = on ? unique([...state.ticked, id]) : state.ticked.filter((other) => other !== id);
  if (!on) state.colors.delete(id);
  remember();
  drawList();
  drawCurves(true);
}

function focus(id) {
  state.focus = id;
  if (!state.ticked.includes(id)) tick(id, true);
  drawList();
  drawDetail(true).then(() => $("detail").scrollIntoView({ behavior: "smooth", block: "nearest" }));
}

function remember() {
  history.replaceState(null, "", state.ticked.length ? `#${encodeURIComponent(state.ticked.join("|"))}` : location.pathname);
}

async function drawCurves(anyway = false) {
  state.ticked = state.ticked.filter((id) => state.byId.has(id));
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
  const names = namesOfTicked(state.ticked);
  $("legend").replaceChildren(...state.ticked.map((id, i) => { const dot = h("i"); dot.style.background = colorOf(id); return h("span", { title: id }, dot, names[i]); }));
  drawCharts();
  await drawDifferences();
}

function drawChips() {
  const names = state.ticked.length ? [...state.names].sort() : [];
  const chosen = names.filter((name) => state.metrics.has(name)), others = names.filter((name) => !state.metrics.has(name));
  const more = h("select", { "aria-label": "add a metric", onchange: () => { state.metrics.add(more.value); drawCurves(true); } }, h("option", { value: "" }, "add a metric"), ...others.map((name) => h("option", { value: name }, name)));
  $("chips").replaceChildren(...chosen.map((name) => h("button", { type: "button", "aria-pressed": "true", title: "remove", onclick: () => { state.metrics.delete(name); drawCurves(true); } }, name)), ...(others.length ? [more] : []));
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
  const names = unique(configs.flatMap((config) => Object.keys(config)));
  const differing = names.filter((name) => unique(configs.map((config) => JSON.stringify(config[name]))).length > 1);
  target.replaceChildren(h("h2", {}, "What differs"), differing.length
    ? table(["field", ...namesOfTicked(ids)], differing.map((name) => [name, ...configs.map((config) => plain(config[name]))]))
    : h("p", { class: "small" }, "nothing: the same configuration and seed"));
}

const plain = (value) => (value === null || value === undefined ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value));

function table(columns, body) {
  const cell = (tag, content) => h(tag, {}, content);
  const head = columns.some(Boolean) ? h("thead", {}, h("tr", {}, ...columns.map((c) => cell("th", c)))) : null;
  return h("div", { class: "scroll" }, h("table", {}, head, h("tbody", {}, ...body.map((row) => h("tr", {}, ...row.map((c) => cell("td", c)))))));
}

// One run in detail: the diagnosis and the next command first, then what they rest on ----------------------

async function drawDetail(anyway = false) {
  const id = state.focus, target = $("detail");
  if (!id) return target.replaceChildren();
  const { body, news } = await ask(`/api/run?id=${encodeURIComponent(id)}`).catch(() => ({ body: null }));
  if (!body || state.focus !== id || !(news || anyway || target.dataset.id !== id)) return;
  const open = target.dataset.id === id ? [...target.querySelectorAll("details[open]")].map((one) => one.dataset.name) : [];
  target.dataset.id = id;
  const findings = (verdicts) => body.findings.filter((f) => verdicts.includes(f.verdict)).map((f) => [h("span", { class: f.verdict }, f.verdict), f.check, h("div", {}, f.seen, f.advice ? h("div", { class: "small" }, `→ ${f.advice}`) : null)]);
  const folded = (name, columns, body) => (body.length ? h("details", { "data-name": name, open: open.includes(name) }, h("summary", {}, `${name} (${body.length})`), table(columns, body)) : null);
  const pressing = findings(["solved", "act", "watch"]);
  const probes = body.probes.map((p) => [p.quantity, p.split, short(p.step), p.resolved ? short(p.value) : "inconclusive", p.lo === null ? "" : `${short(p.lo)} to ${short(p.hi)}`, p.unit]);
  const evaluations = body.evaluations.slice(-5).map((e) => [short(e["time/total_timesteps"]), short(e["eval/mean_reward"]), `${short(e["eval/iqr_low"])} to ${short(e["eval/iqr_high"])}`, plain(e["eval/episodes"])]);
  target.replaceChildren(...[
    h("h2", {}, nameById(id), " ", h("span", { class: "small" }, id)),
    body.sentence ? h("p", { class: "lead" }, body.sentence) : null,
    body.next ? h("pre", {}, body.next) : null,
    body.problem ? h("p", { class: "act" }, body.problem) : null,
    pressing.length ? table(["", "check", "what the doctor saw"], pressing) : null,
    folded("Other findings", ["", "check", "what the doctor saw"], findings(["unknown", "note", "fine"])),
    probes.length ? h("h3", {}, "What its gradient consists of (probes)") : null,
    probes.length ? table(["quantity", "N × T", "step", "value", "95% interval", "unit"], probes) : null,
    evaluations.length ? h("h3", {}, "Evaluations without exploration") : null,
    evaluations.length ? table(["step", "mean", "quartiles", "episodes"], evaluations) : null,
    folded("Fields that are not the default", ["field", "value"], body.changed.map((name) => [name, plain(body.config[name])])),
    folded("What follows from the configuration", ["", ""], Object.entries(body.derived)),
    folded("All fields", ["field", "value"], Object.entries(body.config).map(([name, value]) => [name, plain(value)])),
  ].filter(Boolean));
}

// Looking again -------------------------------------------------------------------------------------------

async function follow() {
  let wait = LATER;
  try {
    if (!document.hidden) await refresh();
    if (!state.runs.length || state.attention?.pending || state.runs.some((run) => run.status === "running")) wait = SOON;
  } catch (error) {
    if (!document.querySelector(".gone")) document.body.prepend(h("div", { class: "gone", role: "alert" }, "trimtab view is closed or does not answer; the runs continue without it"));
  }
  setTimeout(follow, wait);
}

$("filter").addEventListener("input", drawList);
$("order").addEventListener("change", drawList);
$("none").addEventListener("click", () => { for (const id of [...state.ticked]) tick(id, false); });
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawCharts, 150); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh().catch(() => null); });
follow();
