// The query of each panel and how it is drawn. A context is `{scope, view, range, steps, data, now,
// main}`: one range for all panels. `main(signal)` gives the answer that several of them share
// (`queries.board`).

import { Chart, align } from "./chart.js";
import { byId, bytes, compact, count, h, logButton, percent, span } from "./dom.js";
import { Panel } from "./panel.js";
import * as ask from "./queries.js";
import { run, when } from "./sql.js";
import { lengthOf, offsetName, label, rangeName, starts } from "./zone.js";

const SIZE_FORMAT = { axis: (v) => bytes(v), value: (v) => bytes(v) };

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);

/// The panels of the page. `on.zoom(from, to)` and `on.path(path)` are the clicks; `on.newest(ms)`
/// and `on.paths(list)` pass on what a panel learns.
export function boards(on) {
  return [
    totals(on),
    ...["minute", "hour", "day"].map((kind) => hits(kind, on)),
    statusClasses(on),
    sizes(on),
    topPaths(on),
    visitors(on),
  ];
}

/// The statement behind the totals, the hits and the classes of status, asked once a round.
export function mainOf(scope, range, steps) {
  let asked = null;
  return (signal) => {
    asked ??= run(ask.board(scope, range, steps), signal).then(({ rows }) => Object.groupBy(rows, (row) => row.k));
    return asked;
  };
}

/// Settings that every chart over the range shares.
function frame({ scope, range }, step) {
  return { starts: starts(range.from, range.to, step, scope.zone), step, zone: scope.zone, from: range.from, to: range.to, open: range.open };
}

function totals(on) {
  return new Panel("panel-totals", {
    async load(context, signal) {
      const { scope, range, data } = context;
      const one = async (sql) => (await run(sql, signal)).rows[0] ?? {};
      const [main, newest] = await Promise.all([
        context.main(signal),
        data.newest === null ? {} : one(ask.newestEvent(scope.stream, data.newest)),
      ]);
      // Visitors cost the most and change the least: every fifth time is enough.
      const key = JSON.stringify([scope, range.from, range.open || range.to]);
      if (scope.stream.access && (this.visitorsOf !== key || this.turn % 5 === 0)) {
        this.visitors = (await one(ask.visitors(scope, range))).visitors ?? 0;
        this.visitorsOf = key;
      }
      this.turn = ((this.turn ?? 0) + 1) % 5;
      const classes = main.status ?? [];
      const [all = {}] = main.all ?? [];
      return { hits: all.hits ?? 0, bytes: all.bytes ?? 0, server: sum(classes.map((row) => row.s5)), client: sum(classes.map((row) => row.s4)), newest: when(newest.newest) };
    },
    draw(answer, { scope, range, now }) {
      if (answer.newest !== null) on.newest(answer.newest);
      const total = answer.hits;
      const seconds = Math.max(1, (Math.min(range.to, now) - range.from) / 1000);
      byId("tile-hits").textContent = count(total);
      byId("tile-rate").textContent = rate(total / seconds);
      this.sub(`${range.title}, ${rangeName(range.from, range.to, scope.zone)}`);
      if (!scope.stream.access) return;
      const tile = byId("tile-errors");
      tile.textContent = total ? percent(answer.server, total) : "–";
      tile.title = `${count(answer.server)} answers with a status of 500 to 599`;
      byId("tile-client").textContent = `4xx: ${percent(answer.client, total)}`;
      byId("tile-bytes").textContent = bytes(answer.bytes);
      byId("tile-mean").textContent = total ? `${bytes(answer.bytes / total)} a hit` : "";
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

function hits(kind, on) {
  const chart = new Chart(byId(`chart-${kind}`), { title: "Hits", height: kind === "minute" ? 170 : 150, onPick: on.zoom });
  return new Panel(`panel-${kind}`, {
    async load(context, signal) {
      return (await context.main(signal))[kind] ?? [];
    },
    draw(rows, context) {
      const { scope, range } = context;
      const shape = frame(context, context.steps[kind]);
      const values = align(shape.starts, rows, "hits", 0);
      const name = `Hits per ${shape.step.name}`;
      chart.title = name;
      chart.set({ ...shape, kind: "bars", series: [{ name: "hits", tone: "a", values }] });
      byId(`h-${kind}`).textContent = name;
      const of = scope.path === null ? "" : `, ${scope.path === "" ? "(no path)" : clip(scope.path)}`;
      this.sub(rangeName(range.from, range.to, scope.zone) + of);
      this.figure(compact(sum(values)));
    },
  });
}

/// Shows the charts of hits that the range has; one without a neighbour takes the whole width.
export function arrange(steps) {
  const kinds = ["minute", "hour", "day"];
  for (const kind of kinds) byId(`panel-${kind}`).hidden = !steps[kind];
  const pair = steps.minute !== null && steps.hour !== null && steps.day !== null;
  for (const kind of kinds) byId(`panel-${kind}`).classList.toggle("wide", kind === "minute" || !pair);
}

function clip(text) {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function legend(id, entries) {
  byId(id).replaceChildren(...entries.map(([tone, text, value]) => h("li", {}, h("span", { class: `swatch ${tone}` }), h("span", { text }), value === undefined ? null : h("b", { text: value }))));
}

function statusClasses(on) {
  const chart = new Chart(byId("chart-status"), { title: "Events by class of status", height: 150, onPick: on.zoom });
  const classes = [["s2", "2xx"], ["s3", "3xx"], ["s4", "4xx"], ["s5", "5xx"], ["other", "other"]];
  return new Panel("panel-status", {
    async load(context, signal) {
      return (await context.main(signal)).status ?? [];
    },
    draw(rows, context) {
      const shape = frame(context, context.steps.fit);
      const series = classes
        .map(([tone, name]) => ({ tone, name, values: align(shape.starts, rows, tone, 0) }))
        .filter((one) => one.tone !== "other" || sum(one.values) > 0);
      chart.set({ ...shape, kind: "bars", series });
      legend("legend-status", series.map((one) => [one.tone, one.name, compact(sum(one.values))]));
      this.sub(`by ${shape.step.name}, ${context.range.title}`);
    },
  });
}

function sizes(on) {
  const chart = new Chart(byId("chart-size"), { title: "Response size", height: 150, onPick: on.zoom });
  return new Panel("panel-size", {
    async load({ scope, range, steps }, signal) {
      return (await run(ask.sizes(scope, steps.fit, range), signal)).rows;
    },
    draw(rows, context) {
      const shape = frame(context, context.steps.fit);
      const series = [
        { name: "p50", tone: "b", values: align(shape.starts, rows, "p50", null) },
        { name: "p99", tone: "a", values: align(shape.starts, rows, "p99", null) },
      ];
      chart.set({ ...shape, kind: "lines", log: true, format: SIZE_FORMAT, series });
      legend("legend-size", [["a", "p99: all but one in a hundred are no larger"], ["b", "p50: half are no larger"]]);
      this.sub(`by ${shape.step.name}, ${context.range.title}, logarithmic`);
    },
  });
}

function topPaths(on) {
  return new Panel("panel-top", {
    async load({ scope, range }, signal) {
      return (await run(ask.topPaths(scope, range), signal)).rows;
    },
    draw(rows, { scope, range }) {
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
          h("td", { class: "n", text: percent(row.share, 1) }),
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
  const chart = new Chart(byId("chart-visitors"), { title: "Visitors", height: 300, onPick: on.zoom });
  return new Panel("panel-visitors", {
    async load({ scope, range, steps }, signal) {
      const step = visitorStep(steps);
      return (await run(ask.visitorSeries(scope, step, range), signal)).rows;
    },
    draw(rows, context) {
      const shape = frame(context, visitorStep(context.steps));
      chart.set({ ...shape, kind: "bars", series: [{ name: "visitors", tone: "b", values: align(shape.starts, rows, "visitors", 0) }] });
      this.sub(`distinct hosts by ${shape.step.name}, ${context.range.title}`);
    },
  });
}

/// Rollups hold visitors from the hour: where there are hours enough to draw, hours they are.
function visitorStep({ fit, hour }) {
  return hour && lengthOf(hour) > lengthOf(fit) && fit.id === "15m" ? hour : fit;
}

/// The zone as the page's foot names it.
export function zoneTitle(zone, now) {
  const offset = offsetName(now, zone);
  return offset === zone ? zone : `${zone} (${offset})`;
}

