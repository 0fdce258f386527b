// The on-call question: what did this host do on this date?

import { byId, bytes, count, h, logButton, logText, outsideLink, statusMark } from "./dom.js";
import { SLICE_MAX, newestHost, slice } from "./queries.js";
import { run, when } from "./sql.js";
import { MINUTE, STEPS, label, next, parseWall } from "./zone.js";

export class Slice {
  /// `on.ask({host, date, path, statusClass})` when the form is sent, `on.path` for a click on a path.
  constructor(on) {
    this.on = on;
    this.abort = null;
    this.rows = byId("slice-rows");
    this.node = byId("panel-slice");
    this.problem = this.node.querySelector(".problem");
    byId("slice-form").addEventListener("submit", (event) => {
      event.preventDefault();
      on.ask({
        host: byId("slice-host").value.trim() || null,
        date: byId("slice-date").value || null,
        slicePath: byId("slice-path").value || null,
        sliceClass: byId("slice-class").value || null,
      });
    });
  }

  /// Shows the slice that the view names; without a host, the one of the newest event.
  async show(scope, view, newest) {
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    const { zone } = scope;
    const date = view.date ?? label.date(newest ?? Date.now(), zone);
    byId("slice-host").value = view.host ?? "";
    byId("slice-date").value = date;
    byId("slice-path").value = view.slicePath ?? "";
    byId("slice-class").value = view.sliceClass ?? "";
    this.node.classList.add("stale");
    try {
      let host = view.host;
      if (host === null && newest !== null) {
        const { rows } = await run(newestHost(scope, newest - 10 * MINUTE), abort.signal);
        host = rows[0]?.host ?? null;
      }
      if (abort.signal.aborted) return;
      const from = parseWall(date, zone);
      if (host === null || from === null) {
        this.fill([], scope);
        byId("slice-sub").textContent = "enter a host and a date";
        byId("slice-foot").textContent = "";
        this.fail(null);
        return;
      }
      byId("slice-host").value = host;
      const to = next(from, STEPS["1d"], zone);
      const { rows, stats } = await run(slice(scope.stream, { host, from, to, path: view.slicePath, statusClass: view.sliceClass }), abort.signal);
      if (abort.signal.aborted) return;
      this.fill(rows, scope);
      byId("slice-sub").textContent = `${view.host === null ? "the host of the newest event, " : ""}${label.longDay(from, zone)}, ${zone}`;
      byId("slice-foot").textContent = this.footer(rows, stats);
      this.fail(null);
    } catch (error) {
      if (!abort.signal.aborted) this.fail(error);
    }
  }

  footer(rows, stats) {
    const many = rows.length >= SLICE_MAX ? `the first ${count(SLICE_MAX)} rows` : rows.length === 1 ? "1 row" : `${count(rows.length)} rows`;
    const looked = Number.isFinite(stats.rows_examined) ? ` · ${count(stats.rows_examined)} rows looked at` : "";
    const took = Number.isFinite(stats.elapsed_ms) ? ` · ${stats.elapsed_ms < 10 ? stats.elapsed_ms.toFixed(1) : count(stats.elapsed_ms)} ms` : "";
    return many + looked + took;
  }

  fill(rows, scope) {
    const shown = rows.map((row) => {
      const path = row.path === null || row.path === undefined
        ? logText(null, "(no path)")
        : logButton(row.path, { label: `Show only ${row.path}`, run: () => this.on.path(row.path) });
      return h("tr", {},
        h("td", { class: "t", text: label.seconds(when(row.time), scope.zone) }),
        h("td", {}, statusMark(row.status)),
        h("td", {}, logText(row.method)),
        h("td", { class: "mono path" }, path, row.query ? h("span", { class: "query" }, logText(`?${row.query}`)) : null),
        h("td", { class: "n", text: bytes(row.response_size) }),
        h("td", { class: "ref" }, row.referrer ? outsideLink(row.referrer) : logText(null)),
        h("td", { class: "agent" }, logText(row.user_agent)));
    });
    if (shown.length === 0) shown.push(h("tr", {}, h("td", { colspan: 7, class: "nothing", text: "no events" })));
    this.rows.replaceChildren(...shown);
  }

  fail(error) {
    this.node.classList.toggle("stale", Boolean(error));
    this.problem.hidden = !error;
    this.problem.textContent = error ? `${error.message}${error.hint ? ` — ${error.hint}` : ""}` : "";
  }
}
