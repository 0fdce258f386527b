// The page: boots from the address and the store's streams, keeps the controls and the address in
// step with the view, and lets the panels ask at their pace.
//
// Invariants: the address always reproduces the view, and each change by the user is one step of
// the browser's history; all panels show one range; a hidden page asks nothing; every failure is
// shown, in the panel it concerns or above them all, and mends itself.

import { showAdd } from "./add.js";
import { arrange, boards, mainOf, showFreshness, zoneTitle } from "./boards.js";
import { byId, h } from "./dom.js";
import { Rounds } from "./panel.js";
import { askLogin, showAccount } from "./login.js";
import * as ask from "./queries.js";
import { Slice } from "./slice.js";
import { now, run, streams, when } from "./sql.js";
import { RANGES, browserZone, firstRange, fromAddress, isLive, isOutside, newestDays, resolve, steps, toAddress } from "./state.js";
import { Tail } from "./tail.js";
import { DAY, MINUTE, known, label, parseWall, wallInput } from "./zone.js";

const TICK_MS = 500;
const ROUND_MS = 2000;
const RETRY_MS = 3000;
const BOUNDS_EVERY_MS = 60_000;
/// An idle archive is asked more rarely than a stream with traffic.
const IDLE_PACE = 5;

const view = fromAddress(location.search);
let list = []; // the store's streams, described
let stream = null; // the one that is shown
const NOTHING = { oldest: null, first: null, newest: null, utcDays: true, sites: [], levels: null, completeFrom: null };
let data = NOTHING;
let ready = false;
let boundsAt = 0;
let tailState = "connecting";
let starting = 0; // counts the starts, so that an older one gives way
let moved = false; // another stream was picked: a range without its data gives way
let lastTrouble = null; // what the line above the panels says

const panels = boards({
  zoom,
  path: (path) => change({ path }),
  newest: (at) => noteNewest(at),
  paths: (paths) => byId("paths").replaceChildren(...paths.map((value) => h("option", { value }))),
});
const rounds = new Rounds(panels, ROUND_MS);
const slice = new Slice({ ask: (asked) => change(asked, "slice"), path: (path) => change({ path }), host: showHost });
const tail = new Tail({
  event: (at) => noteNewest(at),
  state: (state) => { tailState = state; showConnection(); },
  host: showHost,
  path: (path) => change({ path }),
});

/// A bar narrows the range to what it counts; one of a single minute lists its events.
function zoom(from, to) {
  if (to - from > MINUTE || !stream.access) return change({ range: "custom", from, to });
  change({ minute: from, host: null, date: null, slicePath: view.path, sliceClass: null }, "slice");
  return byId("panel-slice").scrollIntoView({ block: "nearest" });
}

function showHost(host, at) {
  change({ host, date: label.date(at ?? now(), view.zone), minute: null, slicePath: null, sliceClass: null }, "slice");
  byId("panel-slice").scrollIntoView({ block: "nearest" });
}

function noteNewest(at) {
  if (at !== null && (data.newest === null || at > data.newest)) data = { ...data, newest: at };
}

function scope(from = Infinity) {
  const { zone, site, path } = view;
  return { stream: ask.counting(stream, data.completeFrom, from), zone, site, path, utcDays: data.utcDays, levels: data.levels };
}

function context() {
  const at = now();
  const range = resolve(view, data, at);
  const made = { scope: scope(range.from), view, range, steps: steps(range), data, now: at };
  return { ...made, main: mainOf(made.scope, range, made.steps) };
}

// ---- start ----

async function start() {
  starting += 1;
  const mine = starting;
  for (;;) {
    try {
      list = (await streams()).map(ask.describe);
      trouble(null);
      fillStreams();
      stream = list.find((one) => one.name === view.stream) ?? (await firstWithEvents());
      if (stream && (await readBounds())) break;
      showEmpty();
    } catch (error) {
      trouble(error);
    }
    showConnection();
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    // Another stream was picked meanwhile: its own start goes on.
    if (mine !== starting) return;
  }
  if (mine !== starting) return;
  if (view.stream !== null && view.stream !== stream.name) trouble(new Error(`there is no stream "${view.stream}"; the page shows "${stream.name}"`));
  byId("empty").hidden = true;
  byId("board").hidden = false;
  view.stream = stream.name;
  const elsewhere = moved && view.range !== null && isOutside(resolve(view, data, now()), data);
  if (view.range === null || elsewhere) Object.assign(view, firstRange(data, now(), view.zone));
  moved = false;
  ready = true;
  fillControls();
  writeAddress("replaceState");
  restart();
}

/// The first stream that holds events, access logs before others.
async function firstWithEvents() {
  const order = [...list].sort((a, b) => Number(b.access) - Number(a.access));
  for (const one of order) {
    const { rows } = await run(ask.bounds(one));
    if (when(rows[0]?.newest) !== null) return one;
  }
  return order[0] ?? null;
}

/// Reads from when to when the stream has events; false where it has none.
async function readBounds() {
  let [sites, levels, completeFrom] = [[], null, null];
  if (stream.traffic) {
    const { rows } = await run(ask.levels(stream));
    levels = levelsOf(rows);
    completeFrom = rows.reduce((latest, row) => Math.max(latest ?? -Infinity, when(row.complete_from) ?? -Infinity), null);
    if (completeFrom === -Infinity) completeFrom = null;
  }
  const counted = ask.counting(stream, completeFrom, -Infinity);
  const { rows: [bounds = {}] } = await run(ask.bounds(counted));
  const oldest = when(bounds.oldest);
  let newest = when(bounds.newest);
  if (newest === null) return false;
  let first = oldest;
  if (counted.traffic) {
    // From the day to the minute to the event: three small questions instead of one large one.
    const minute = when((await run(ask.newestMinute(counted, newest))).rows[0]?.newest);
    newest = when((await run(ask.newestEvent(counted, minute ?? newest))).rows[0]?.newest) ?? minute ?? newest;
    first = when((await run(ask.firstHour(counted, oldest))).rows[0]?.oldest) ?? oldest;
  }
  if (stream.traffic && stream.access) sites = (await run(ask.sites(stream))).rows.map((row) => row.site ?? "");
  // Days that do not begin at midnight UTC are days of the rollup's own zone: then hours are added up.
  const utcDays = !counted.traffic || (oldest % DAY === 0 && when(bounds.newest) % DAY === 0);
  data = { oldest, first, newest: Math.max(newest, data.newest ?? newest), utcDays, sites, levels, completeFrom };
  boundsAt = performance.now();
  return true;
}

/// Rows of `level, floor` as the tables that state.js knows.
function levelsOf(rows) {
  const tables = { minute: "minutely", hour: "hourly", day: "daily", month: "monthly", year: "yearly" };
  return Object.fromEntries(rows.filter(({ level }) => tables[level]).map(({ level, floor }) => [tables[level], when(floor)]));
}

function showEmpty() {
  byId("board").hidden = true;
  byId("empty").hidden = false;
  if (stream) byId("stream").value = stream.name;
  const name = stream?.name ?? "access";
  byId("empty-title").textContent = stream ? `The stream "${name}" is empty` : "The store is empty";
  byId("empty-curl").textContent = `echo '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326' \\\n  | curl --data-binary @- ${location.origin}/api/v1/ingest/${name}`;
  byId("empty-import").textContent = `logmill import /var/log/nginx/access.log* --stream ${name} --server ${location.origin}`;
}

// ---- the view changes ----

/// Takes the user's change into the view, as a step to come back from, and asks again what it
/// concerns: everything, or the slice alone.
function change(what, only = null) {
  Object.assign(view, what);
  writeAddress("pushState");
  if (lastTrouble?.code !== "unreachable") trouble(null);
  if (only === "slice") return slice.show(scope(), view, data.newest);
  return restart();
}

function restart() {
  const { steps: charts } = showControls();
  const shape = stream.access;
  for (const node of document.querySelectorAll("[data-access]")) node.hidden = !shape;
  arrange(charts);
  rounds.reset();
  tick();
  if (shape) slice.show(scope(), view, data.newest);
  tail.open(scope(), data.newest);
}

function writeAddress(how) {
  const address = location.pathname + toAddress(view);
  if (address !== location.pathname + location.search) history[how](null, "", address);
}

/// Back and forward: the view that the address names, in place.
function goBack() {
  const was = view.stream;
  Object.assign(view, fromAddress(location.search));
  view.stream ??= was;
  if (ready && view.stream === was && view.range !== null) return restart();
  return openStream(view.stream);
}

function openStream(name) {
  stream = list.find((one) => one.name === name) ?? stream;
  ready = false;
  data = NOTHING;
  rounds.reset();
  tail.close();
  return start();
}

function pickStream(name) {
  Object.assign(view, { stream: name, site: null, path: null, host: null, date: null, slicePath: null, sliceClass: null, minute: null });
  writeAddress("pushState");
  moved = true;
  return openStream(name);
}

// ---- controls ----

function fillControls() {
  fillStreams();
  const buttons = [...Object.entries(RANGES).map(([id, range]) => [id, range.name]), ["all", "All"], ["custom", "Custom"]];
  byId("ranges").replaceChildren(...buttons.map(([id, text]) => h("button", { type: "button", data: { range: id }, text, on: { click: () => pickRange(id) } })));
  fillZones();
}

function fillStreams() {
  byId("stream").replaceChildren(...list.map((one) => h("option", { value: one.name, text: one.name })));
  byId("stream").closest("label").hidden = list.length < 2;
  if (stream) byId("stream").value = stream.name;
}

function fillZones() {
  const own = browserZone();
  const zones = Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : [];
  const option = (value, text = value) => h("option", { value, text });
  const common = [option("UTC")];
  if (own !== "UTC") common.unshift(option(own, `${own} (this browser)`));
  if (view.zone !== own && view.zone !== "UTC" && !zones.includes(view.zone)) common.push(option(view.zone));
  byId("zone").replaceChildren(
    h("optgroup", { label: "Usual" }, ...common),
    h("optgroup", { label: "All" }, ...zones.filter((zone) => zone !== own && zone !== "UTC").map((zone) => option(zone))));
}

/// Brings the controls in step with the view, and gives back what it means now.
function showControls() {
  const current = context();
  const { range } = current;
  byId("stream").value = stream.name;
  for (const button of byId("ranges").children) button.setAttribute("aria-pressed", String(button.dataset.range === view.range));
  byId("custom").hidden = view.range !== "custom";
  byId("custom-from").value = wallInput(range.from, view.zone);
  byId("custom-to").value = wallInput(range.to, view.zone);
  showSites();
  byId("path").value = view.path ?? "";
  byId("path").placeholder = view.path === "" ? "(no path)" : "all pages";
  byId("path-clear").hidden = view.path === null;
  byId("zone").value = view.zone;
  byId("zone-name").textContent = zoneTitle(view.zone, data.newest ?? now());
  document.title = `${view.path || stream.name} · logmill`;
  return current;
}

/// Sites are values of a log: the option's value is an index, so that "" can mean "without one".
function showSites() {
  const sites = view.site !== null && !data.sites.includes(view.site) ? [...data.sites, view.site] : data.sites;
  const select = byId("site");
  select.replaceChildren(h("option", { value: "all", text: "all sites" }), ...sites.map((site, i) => h("option", { value: String(i), text: site === "" ? "(no site)" : site })));
  select.value = view.site === null ? "all" : String(sites.indexOf(view.site));
  select.onchange = () => change({ site: select.value === "all" ? null : sites[Number(select.value)] });
}

function pickRange(id) {
  if (id !== "custom") return change({ range: id, from: null, to: null });
  const { from, to } = resolve(view, data, now());
  change({ range: "custom", from, to });
  return byId("custom-from").focus();
}

byId("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  if (view.range !== "custom") return;
  const from = parseWall(byId("custom-from").value, view.zone);
  const to = parseWall(byId("custom-to").value, view.zone);
  if (from === null || to === null || from >= to) return trouble(new Error("a range needs a start and a later end"));
  trouble(null);
  return change({ from, to });
});
byId("stream").addEventListener("change", () => pickStream(byId("stream").value));
byId("zone").addEventListener("change", () => known(byId("zone").value) && change({ zone: byId("zone").value }));
byId("path").addEventListener("change", () => change({ path: byId("path").value || null }));
byId("path").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  if ((byId("path").value || null) !== view.path) change({ path: byId("path").value || null });
});
byId("path-clear").addEventListener("click", () => change({ path: null }));
byId("note-go").addEventListener("click", () => change(newestDays(data, view.zone)));
byId("add-open").addEventListener("click", () => showAdd(stream?.name));
byId("copy").addEventListener("click", copyLink);

async function copyLink() {
  const button = byId("copy");
  let copied = false;
  try {
    await navigator.clipboard.writeText(location.href);
    copied = true;
  } catch {
    // The clipboard needs a secure context; a page over plain HTTP falls back to a selection.
    const field = h("textarea", { class: "offscreen", readonly: true });
    field.value = location.href;
    document.body.append(field);
    field.select();
    copied = document.execCommand("copy");
    field.remove();
  }
  button.textContent = copied ? "Copied" : "Copy the address bar";
  setTimeout(() => { button.textContent = "Copy link"; }, 2000);
}

// ---- the pace ----

function tick() {
  if (!ready || document.visibilityState !== "visible") return;
  const current = context();
  const pace = current.range.open || view.range === "all" ? (isLive(data, current.now) ? 1 : IDLE_PACE) : Infinity;
  arrange(current.steps);
  rounds.tick(context, pace);
  if (performance.now() - boundsAt > BOUNDS_EVERY_MS) {
    boundsAt = performance.now();
    readBounds().then(showSites, () => {});
  }
  showFreshness(data.newest, current.now, view.zone);
  showNote(current);
  showConnection();
}

/// An archive says how old it is, and leads back to its data from a range that holds none of it.
function showNote({ range, now: at }) {
  const old = data.newest !== null && (at - data.newest > DAY || isOutside(range, data));
  byId("note").hidden = !old;
  if (!old) return;
  const outside = isOutside(range, data);
  byId("note-go").hidden = !outside;
  const text = `Newest events: ${label.full(data.newest, view.zone)}${outside ? ". The chosen range holds none." : "."}`;
  if (byId("note-text").textContent !== text) byId("note-text").textContent = text;
}

function showConnection() {
  const pill = byId("connection");
  const lost = panels.find((panel) => panel.error?.code === "unreachable")?.error ?? null;
  if (ready && lost && lastTrouble?.code !== "unreachable") trouble(lost);
  if (ready && !lost && lastTrouble?.code === "unreachable") trouble(null);
  const unreachable = lastTrouble?.code === "unreachable";
  let state = "connecting";
  if (unreachable || tailState === "lost") state = unreachable ? "offline" : "reconnecting";
  else if (!ready && !byId("empty").hidden) state = "waiting";
  else if (ready && tailState === "open") state = isLive(data, now()) ? "live" : "connected";
  if (pill.dataset.state === state) return;
  pill.dataset.state = state;
  pill.textContent = state;
}

function trouble(error) {
  lastTrouble = error;
  const node = byId("trouble");
  node.hidden = !error;
  node.textContent = error ? `${error.message}${error.hint ? ` — ${error.hint}` : ""}` : "";
}

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") {
    if (ready) tail.resume();
    tick();
    return;
  }
  tail.suspend();
  rounds.rest();
});
window.addEventListener("popstate", goBack);
setInterval(tick, TICK_MS);
document.addEventListener("login", askLogin);
showAccount().catch(() => {});
start();
if (location.hash === "#add") showAdd(view.stream);
