// The on-call question: what did this host do on this date? Or, of a minute of a chart: what came
// in it?
//
// Without a host in the view, the host of the newest event is shown. It is looked up once for a
// stream, so that what one reads stays in place while other things change.

import { byId, bytes, count, h, logButton, logText, outsideLink, statusMark } from "./dom.js";
import { RETRY_MS, fail } from "./panel.js";
import { SLICE_PAGE, newestHost, slicePage, sliceSummary } from "./queries.js";
import { run, when } from "./sql.js";
import { MINUTE, STEPS, label, next, parseWall } from "./zone.js";

/// The request of a view to the slice: `{host, from, to, path, statusClass}`, null while something
/// is missing.
export function sliceOf(view, zone, usual) {
  const more = { path: view.slicePath, statusClass: view.sliceClass };
  if (view.minute !== null && view.minute !== undefined) return { host: view.host, from: view.minute, to: view.minute + MINUTE, ...more };
  const host = view.host ?? usual.host;
  const from = parseWall(view.date ?? usual.date, zone);
  return host === null || from === null ? null : { host, from, to: next(from, STEPS["1d"], zone), ...more };
}

export class Slice {
  /// `on.ask({host, date, slicePath, sliceClass, minute})` when the form is sent, `on.path` for a
  /// click on a path, `on.host(host, ms)` for one on a host.
  constructor(on) {
    this.on = on;
    this.abort = null;
    this.usual = null;
    this.rows = byId("slice-rows");
    this.node = byId("panel-slice");
    this.more = byId("slice-more");
    this.more.addEventListener("click", () => this.next());
    byId("slice-form").addEventListener("submit", (event) => {
      event.preventDefault();
      on.ask({
        host: byId("slice-host").value.trim() || null,
        date: byId("slice-date").value || null,
        slicePath: byId("slice-path").value || null,
        sliceClass: byId("slice-class").value || null,
        minute: null,
      });
    });
  }

  /// Begins to show what the view names, and tries again until it is shown.
  show(scope, view, newest) {
    this.abort?.abort();
    clearTimeout(this.later);
    const abort = new AbortController();
    this.abort = abort;
    this.node.classList.add("stale");
    this.more.hidden = true;
    this.attempt(() => this.load(scope, view, newest, abort.signal), abort.signal);
  }

  async attempt(work, signal) {
    try {
      await work();
      fail(this.node, null);
    } catch (error) {
      if (signal.aborted) return;
      fail(this.node, error);
      this.later = setTimeout(() => this.attempt(work, signal), RETRY_MS);
    }
  }

  async load(scope, view, newest, signal) {
    const { stream, zone } = scope;
    if (this.usual?.stream !== stream.name) {
      const rows = newest === null ? [] : (await run(newestHost({ ...scope, site: null, path: null }, newest - 10 * MINUTE), signal)).rows;
      this.usual = { stream: stream.name, host: rows[0]?.host ?? null, at: when(rows[0]?.time) ?? newest ?? Date.now() };
    }
    const usual = { host: this.usual.host, date: label.date(this.usual.at, zone) };
    const asked = sliceOf(view, zone, usual);
    byId("slice-host").value = asked ? asked.host ?? "" : view.host ?? "";
    byId("slice-date").value = asked ? label.date(asked.from, zone) : view.date ?? usual.date;
    byId("slice-path").value = view.slicePath ?? "";
    byId("slice-class").value = view.sliceClass ?? "";
    byId("slice-hosts").hidden = Boolean(asked?.host);
    byId("h-slice").textContent = view.minute === null ? "One host, one date" : "One minute";
    if (!asked) {
      this.rows.replaceChildren();
      this.say("enter a host and a date");
      return;
    }
    const [summary = {}] = (await run(sliceSummary(stream, asked), signal)).rows;
    const { rows, stats } = summary.n > 0 ? await run(slicePage(stream, asked, summary.cut), signal) : { rows: [], stats: {} };
    if (signal.aborted) return;
    this.shown = { scope, asked, summary, stats, last: rows.at(-1), count: 0 };
    this.rows.replaceChildren();
    this.add(rows);
    if (rows.length === 0) this.rows.append(h("tr", {}, h("td", { colspan: 8, class: "nothing", text: "no events" })));
    const what = view.minute === null
      ? `${view.host === null ? "the host of the newest event, " : ""}${label.longDay(asked.from, zone)}`
      : `${asked.host === null ? "every host, " : ""}${label.longDay(asked.from, zone)}, ${label.clock(asked.from, zone)}–${label.clock(asked.to, zone)}`;
    this.say(`${what}, ${zone}`, summaryText(summary, zone));
  }

  /// The next page, after the last row that is shown.
  next() {
    const { scope, asked, summary, last } = this.shown;
    const { signal } = this.abort;
    clearTimeout(this.later);
    this.more.hidden = true;
    this.attempt(async () => {
      const { rows, stats } = await run(slicePage(scope.stream, asked, summary.cut, last), signal);
      if (signal.aborted || this.shown.last !== last) return;
      this.shown.last = rows.at(-1);
      this.shown.stats = stats;
      this.add(rows);
    }, signal);
  }

  say(sub, summary = "") {
    byId("slice-sub").textContent = sub;
    byId("slice-summary").textContent = summary;
    if (!summary) byId("slice-foot").textContent = "";
  }

  /// Appends rows and says how many of all there are.
  add(rows) {
    const { shown } = this;
    shown.count += rows.length;
    this.rows.append(...rows.map((row) => this.row(row, shown.scope, shown.asked)));
    const more = rows.length >= SLICE_PAGE && shown.count < shown.summary.n;
    this.more.hidden = !more;
    this.more.textContent = `Show ${count(Math.min(SLICE_PAGE, shown.summary.n - shown.count))} more`;
    const { stats } = shown;
    const many = shown.count < shown.summary.n ? `the first ${count(shown.count)} of ${count(shown.summary.n)} rows` : shown.count === 1 ? "1 row" : `${count(shown.count)} rows`;
    const looked = Number.isFinite(stats.rows_examined) ? ` · ${count(stats.rows_examined)} rows examined` : "";
    const took = Number.isFinite(stats.elapsed_ms) ? ` · ${stats.elapsed_ms < 10 ? stats.elapsed_ms.toFixed(1) : count(stats.elapsed_ms)} ms` : "";
    byId("slice-foot").textContent = many + looked + took;
  }

  row(row, scope, asked) {
    const at = when(row.time);
    const path = row.path === null || row.path === undefined
      ? logText(row.request, "(no path)")
      : logButton(row.path, { label: `Show only ${row.path}`, run: () => this.on.path(row.path) });
    const host = row.host
      ? logButton(row.host, { label: `Show ${row.host} on this date`, run: () => this.on.host(row.host, at) })
      : logText(null);
    return h("tr", {},
      h("td", { class: "t", text: label.seconds(at, scope.zone) }),
      h("td", {}, statusMark(row.status)),
      asked.host === null ? h("td", { class: "mono" }, host) : null,
      h("td", {}, logText(row.method)),
      h("td", { class: "mono path" }, path, row.query ? h("span", { class: "query" }, logText(`?${row.query}`)) : null),
      h("td", { class: "n", text: bytes(row.response_size) }),
      h("td", { class: "ref" }, row.referrer ? outsideLink(row.referrer) : logText(null)),
      h("td", { class: "agent" }, logText(row.user_agent)));
  }
}

/// A slice in one line: how many, from when to when, how they were answered, how much was sent.
export function summaryText(summary, zone) {
  if (!summary.n) return "";
  const classes = [["s2", "2xx"], ["s3", "3xx"], ["s4", "4xx"], ["s5", "5xx"], ["other", "other"]];
  const mix = classes.filter(([key]) => summary[key] > 0).map(([key, name]) => `${name} ${count(summary[key])}`).join(", ");
  const [first, last] = [when(summary.first), when(summary.last)].map((at) => label.seconds(at, zone));
  const span = summary.n === 1 ? `at ${first}` : `first ${first}, last ${last}`;
  return `${count(summary.n)} ${summary.n === 1 ? "event" : "events"}: ${span} · ${mix} · ${bytes(summary.bytes ?? 0)}`;
}
