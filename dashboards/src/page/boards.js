// What each panel asks and how it is drawn. A context is `{scope, view, range, windows, data, now}`.

import { Chart, align } from "./chart.js";
import { byId, bytes, compact, count, h, logButton, percent, span } from "./dom.js";
import { Panel } from "./panel.js";
import * as ask from "./queries.js";
import { run, when } from "./sql.js";
import { ceil, floor, label, offsetName, rangeName, starts, stepFor } from "./zone.js";

const TOP_PATHS = 20;

const SIZE_FORMAT = { axis: (v) => bytes(v), value: (v) => bytes(v) };

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);

/// The panels of the page. `on.zoom(from, to)` and `on.path(path)` are the clicks; `on.newest(ms)`
/// and `on.paths(list)` pass on what a panel learns.
export function boards(on) {
  return [
    totals(on),
    hits("minute", { period: 2000, height: 170, wide: true }, on),
    hits("hour", { period: 4000 }, on),
    hits("day", { period: 8000 }, on),
    statusClasses(on),
    sizes(on),
    topPaths(on),
    visitors(on),
  ];
}

function totals(on) {
  return new Panel("panel-totals", {
    period: 2000,
    async load({ scope, range, data }, signal) {
      const one = async (sql) => (sql ? (await run(sql, signal)).rows[0] ?? {} : {});
      const [main, errors, newest] = await Promise.all([
        one(ask.totals(scope, range)),
        one(ask.pageErrors(scope, range)),
        data.newest === null ? {} : one(ask.newestEvent(scope.stream, data.newest)),
      ]);
      // Visitors cost the most and change the least: every fifth time is enough.
      const key = JSON.stringify([scope, range.from]);
      if (scope.stream.access && (this.visitorsOf !== key || this.turn % 5 === 0)) {
        this.visitors = (await one(ask.visitors(scope, range))).n ?? 0;
        this.visitorsOf = key;
      }
      this.turn = ((this.turn ?? 0) + 1) % 5;
      return { ...main, ...errors, newest: when(newest.newest) };
    },
    draw(answer, { scope, range, now }) {
      if (answer.newest !== null) on.newest(answer.newest);
      const total = answer.hits ?? 0;
      const seconds = Math.max(1, (Math.min(range.to, now) - range.from) / 1000);
      byId("tile-hits").textContent = count(total);
      byId("tile-rate").textContent = rate(total / seconds);
      this.sub(`${range.title}, ${rangeName(range.from, range.to, scope.zone)}`);
      if (!scope.stream.access) return;
      const tile = byId("tile-errors");
      tile.textContent = total ? percent(answer.server ?? 0, total) : "–";
      tile.title = `${count(answer.server ?? 0)} answers with a status of 500 or more`;
      byId("tile-client").textContent = `4xx: ${percent(answer.client ?? 0, total)}`;
      byId("tile-bytes").textContent = bytes(answer.bytes ?? 0);
      byId("tile-mean").textContent = total ? `${bytes((answer.bytes ?? 0) / total)} a hit` : "";
      byId("tile-visitors").textContent = count(this.visitors);
    },
  });
}

function rate(perSecond) {
  if (perSecond === 0) return "none";
  const short = (n) => (n < 100 ? String(Number(n.toPrecision(2))) : compact(n));
  if (perSecond >= 1) return `${short(perSecond)} a second`;
  if (perSecond * 60 >= 1) return `${short(perSecond * 60)} a minute`;
  return `${short(perSecond * 3600)} an hour`;
}

/// The tile that counts up by itself: how long ago the last event happened.
export function showFreshness(newest, now, zone) {
  byId("tile-fresh").textContent = newest === null ? "–" : now - newest < 1500 ? "just now" : `${span(now - newest)} ago`;
  byId("tile-newest").textContent = newest === null ? "" : label.full(newest, zone);
}

const WINDOW_NAMES = { minute: "Hits per minute", hour: "Hits per hour", day: "Hits per day" };

function hits(kind, { period, height = 150, wide = false }, on) {
  const chart = new Chart(byId(`chart-${kind}`), { title: WINDOW_NAMES[kind], height, onPick: kind === "minute" ? null : on.zoom });
  return new Panel(`panel-${kind}`, {
    period,
    async load({ scope, windows }, signal) {
      const window = windows[kind];
      return { window, rows: (await run(ask.hits(scope, window.step, window), signal)).rows };
    },
    draw({ window, rows }, { scope }) {
      const list = starts(window.from, window.to, window.step, scope.zone);
      const values = align(list, rows, "hits", 0);
      chart.set({ starts: list, step: window.step, zone: scope.zone, open: window.open, kind: "bars", series: [{ name: "hits", tone: "a", values }] });
      const of = scope.path === null ? "" : `, ${scope.path === "" ? "(no path)" : clip(scope.path)}`;
      if (kind === "day") byId("h-day").textContent = window.step.unit === "month" ? "Hits per month" : WINDOW_NAMES.day;
      this.sub((wide ? rangeName(window.from, window.to, scope.zone) : rangeName(list[0], window.to, scope.zone)) + of);
      this.figure(compact(sum(values)));
    },
  });
}

function clip(text) {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/// The range widened to whole buckets of a chart.
function wholeBuckets(range, step, zone) {
  return { ...range, from: floor(range.from, step, zone), to: ceil(range.to, step, zone) };
}

function legend(id, entries) {
  byId(id).replaceChildren(...entries.map(([tone, text, value]) => h("li", {}, h("span", { class: `swatch ${tone}` }), h("span", { text }), value === undefined ? null : h("b", { text: value }))));
}

function statusClasses(on) {
  const chart = new Chart(byId("chart-status"), { title: "Events by class of status", height: 150, onPick: on.zoom });
  const classes = [["s2", "2xx"], ["s3", "3xx"], ["s4", "4xx"], ["s5", "5xx"], ["other", "other"]];
  return new Panel("panel-status", {
    period: 4000,
    async load({ scope, range }, signal) {
      const step = stepFor(range.to - range.from);
      const window = wholeBuckets(range, step, scope.zone);
      return { step, range: window, rows: (await run(ask.statuses(scope, step, window), signal)).rows };
    },
    draw({ step, range, rows }, { scope }) {
      const list = starts(range.from, range.to, step, scope.zone);
      const series = classes
        .map(([tone, name]) => ({ tone, name, values: align(list, rows, tone, 0) }))
        .filter((one) => one.tone !== "other" || sum(one.values) > 0);
      chart.set({ starts: list, step, zone: scope.zone, open: range.open, kind: "bars", series });
      legend("legend-status", series.map((one) => [one.tone, one.name, compact(sum(one.values))]));
      this.sub(`by ${step.name}, ${range.title}`);
    },
  });
}

function sizes(on) {
  const chart = new Chart(byId("chart-size"), { title: "Response size", height: 150, onPick: on.zoom });
  return new Panel("panel-size", {
    period: 8000,
    async load({ scope, range }, signal) {
      const step = ask.sizeStep(scope, stepFor(range.to - range.from));
      const window = wholeBuckets(range, step, scope.zone);
      const sql = ask.sizes(scope, step, window);
      return { step, range: window, rows: sql ? (await run(sql, signal)).rows : [] };
    },
    draw({ step, range, rows }, { scope }) {
      const list = starts(range.from, range.to, step, scope.zone);
      const series = [
        { name: "p50", tone: "b", values: align(list, rows, "p50", null) },
        { name: "p99", tone: "a", values: align(list, rows, "p99", null) },
      ];
      chart.set({ starts: list, step, zone: scope.zone, open: range.open, kind: "lines", log: true, format: SIZE_FORMAT, series });
      legend("legend-size", [["a", "p99: all but one in a hundred are no larger"], ["b", "p50: half are no larger"]]);
      this.sub(`by ${step.name}, ${range.title}, logarithmic`);
    },
  });
}

function topPaths(on) {
  return new Panel("panel-top", {
    period: 5000,
    async load({ scope, range }, signal) {
      const [top, all] = await Promise.all([
        run(ask.topPaths(scope, range, TOP_PATHS), signal),
        run(ask.totals({ ...scope, path: null }, range), signal),
      ]);
      return { rows: top.rows, total: all.rows[0]?.hits ?? 0 };
    },
    draw({ rows, total }, { scope, range }) {
      const most = Math.max(1, ...rows.map((row) => row.n));
      const shown = rows.map((row) => {
        const picked = scope.path !== null && scope.path === (row.path ?? "");
        const button = logButton(row.path, {
          none: "(no path)",
          label: picked ? "Show all pages" : `Show only ${row.path ?? "events without a path"}`,
          run: () => on.path(picked ? null : (row.path ?? "")),
        });
        const line = h("tr", { class: picked ? "picked" : null },
          h("td", { class: "mono path" }, button),
          h("td", { class: "n", text: count(row.n) }),
          h("td", { class: "n", text: percent(row.n, total) }),
          h("td", { class: "n roomy", text: bytes(row.b ?? 0) }));
        line.style.setProperty("--part", `${(100 * row.n) / most}%`);
        return line;
      });
      if (shown.length === 0) shown.push(h("tr", {}, h("td", { colspan: 4, class: "nothing", text: "no events in this range" })));
      keepFocus(byId("top-rows"), shown);
      on.paths(rows.map((row) => row.path).filter((path) => path));
      this.sub(range.title);
    },
  });
}

/// Replaces rows without taking the keyboard's place in them away.
function keepFocus(body, rows) {
  const at = [...body.querySelectorAll("button")].indexOf(document.activeElement);
  body.replaceChildren(...rows);
  if (at >= 0) body.querySelectorAll("button")[at]?.focus({ preventScroll: true });
}

function visitors(on) {
  const height = 132;
  const charts = {
    hour: new Chart(byId("chart-visitors-hour"), { title: "Visitors per hour", height, onPick: on.zoom }),
    day: new Chart(byId("chart-visitors-day"), { title: "Visitors per day", height, onPick: on.zoom }),
  };
  return new Panel("panel-visitors", {
    period: 10_000,
    async load({ scope, windows }, signal) {
      const one = async (window) => ({ window, rows: (await run(ask.visitorSeries(scope, window.step, window), signal)).rows });
      const [hour, day] = await Promise.all([one(windows.hour), one(windows.day)]);
      return { hour, day };
    },
    draw(answer, { scope }) {
      for (const kind of ["hour", "day"]) {
        const { window, rows } = answer[kind];
        const list = starts(window.from, window.to, window.step, scope.zone);
        charts[kind].set({ starts: list, step: window.step, zone: scope.zone, open: window.open, kind: "bars", series: [{ name: "visitors", tone: "b", values: align(list, rows, "n", 0) }] });
        byId(`visitors-${kind}-name`).textContent = `per ${window.step.name}, ${rangeName(list[0], window.to, scope.zone)}`;
      }
      const half = answer.day.window.step.unit !== "hour" && !scope.exactDays ? ", days cut at whole UTC hours" : "";
      this.sub(`distinct hosts${half}`);
    },
  });
}

/// The zone as the page's foot names it.
export function zoneTitle(zone, now) {
  const offset = offsetName(now, zone);
  return offset === zone ? zone : `${zone} (${offset})`;
}

