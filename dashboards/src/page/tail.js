// The live tail: the last events of a stream, newest first, over server-sent events.
//
// Whatever the rate, the page draws four times a second at most and keeps ROWS_MAX rows. While
// paused, events are counted but not kept, so a pause of a day costs nothing.

import { byId, bytes, count, h, logButton, logText, statusMark } from "./dom.js";
import { RETRY_MS, fail } from "./panel.js";
import { lastEvents } from "./queries.js";
import { run, when } from "./sql.js";
import { MINUTE, label } from "./zone.js";

const ROWS_MAX = 50;
const DRAW_EVERY_MS = 250;
const RATE_OVER_MS = 5000;

const ACCESS = [
  ["Time", (event, zone) => h("td", { class: "t", text: clock(event, zone) })],
  ["Status", (event) => h("td", {}, statusMark(event.status))],
  ["Host", (event, _zone, on) => h("td", { class: "mono" }, event.host ? logButton(event.host, { label: `Show ${event.host} on this date`, run: () => on.host(event.host, when(event.time)) }) : logText(null))],
  ["Method", (event) => h("td", {}, logText(event.method))],
  ["Path", (event, _zone, on) => h("td", { class: "mono path" }, event.path ? logButton(event.path, { label: `Show only ${event.path}`, run: () => on.path(event.path) }) : logText(event.request, "(no path)"))],
  ["Size", (event) => h("td", { class: "n", text: bytes(event.response_size) })],
  ["User agent", (event) => h("td", { class: "agent" }, logText(event.user_agent))],
];

const OTHER = [
  ["Time", (event, zone) => h("td", { class: "t", text: clock(event, zone) })],
  ["Event", (event) => h("td", { class: "mono" }, logText(event.line ?? describe(event)))],
];

function clock(event, zone) {
  const at = when(event.time);
  if (at === null) return "–";
  return Math.abs(Date.now() - at) < 12 * 60 * MINUTE ? label.seconds(at, zone) : label.full(at, zone);
}

function describe(event) {
  return Object.entries(event)
    .filter(([key, value]) => !key.startsWith("_") && key !== "time" && value !== null)
    .map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join("  ");
}

export class Tail {
  /// `on.event(ms)` for every event, `on.state(name)` for the connection, `on.host`, `on.path` for clicks.
  constructor(on) {
    this.on = on;
    this.source = null;
    this.rows = byId("tail-rows");
    this.head = byId("tail-head");
    this.sub = byId("tail-sub");
    this.node = byId("panel-tail");
    this.button = byId("tail-pause");
    this.paused = false;
    this.fresh = [];
    this.seen = new Set();
    this.recent = [];
    this.missed = 0;
    this.newest = null;
    this.lost = false; // the connection was, and has not come back
    this.meanwhile = null; // what arrives while the stored events are read
    this.button.addEventListener("click", () => this.pause(!this.paused));
    setInterval(() => this.draw(), DRAW_EVERY_MS);
  }

  pause(paused) {
    this.paused = paused;
    this.missed = 0;
    this.button.textContent = paused ? "Resume" : "Pause";
    this.button.setAttribute("aria-pressed", String(paused));
    this.say();
  }

  /// Begins anew for a scope: the last stored events first, then what arrives.
  open(scope, newest) {
    this.close();
    this.scope = scope;
    this.newest = newest;
    this.columns = scope.stream.access ? ACCESS : OTHER;
    this.fresh = [];
    this.seen = new Set();
    this.rows.replaceChildren();
    this.head.replaceChildren(...this.columns.map(([title]) => h("th", { scope: "col", class: title === "Size" ? "n" : null, text: title })));
    this.listen();
    this.fill();
  }

  /// Reads the last stored events, in the order of time and arrival, and tries again until it has
  /// them. What the stream brings meanwhile stays above them.
  async fill() {
    this.abort?.abort();
    clearTimeout(this.again);
    if (this.newest === null) return this.say();
    this.node.classList.add("stale");
    const abort = new AbortController();
    this.abort = abort;
    this.meanwhile = [];
    try {
      // An hour before the newest event is nearly always enough, and never a scan of the store.
      const { rows } = await run(lastEvents(this.scope, this.newest - 60 * MINUTE, ROWS_MAX), abort.signal);
      if (abort.signal.aborted) return;
      const stored = new Set(rows.map((event) => event._id));
      const above = this.meanwhile.filter((event) => !stored.has(event._id)).reverse();
      this.fresh = [];
      this.seen = new Set([...above, ...rows].map((event) => event._id).filter(Boolean));
      this.rows.replaceChildren(...[...above, ...rows].slice(0, ROWS_MAX).map((event) => this.row(event)));
      fail(this.node, null);
    } catch (error) {
      if (abort.signal.aborted) return;
      fail(this.node, error);
      this.again = setTimeout(() => this.fill(), RETRY_MS);
    }
    this.meanwhile = null;
    this.say();
  }

  listen() {
    const { scope } = this;
    const source = new EventSource(`/api/v1/tail?stream=${encodeURIComponent(scope.stream.name)}`);
    this.source = source;
    this.on.state("connecting");
    source.onopen = () => {
      this.on.state("open");
      // The store has the events that came while the connection was lost; they are read from there.
      if (this.lost) this.fill();
      this.lost = false;
    };
    source.onerror = () => {
      this.on.state("lost");
      this.lost = true;
      // A browser gives up for good after an answer that is no event stream; ask again later.
      if (source.readyState === EventSource.CLOSED && this.source === source) this.later = setTimeout(() => this.listen(), RETRY_MS);
    };
    source.onmessage = ({ data }) => {
      let event;
      try {
        event = JSON.parse(data);
      } catch {
        return fail(this.node, new Error("the tail sent an event that is not JSON"));
      }
      return this.take(event);
    };
  }

  /// Holds the connection only while someone looks.
  suspend() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.later);
  }

  resume() {
    if (this.source || !this.scope) return;
    this.lost = true;
    this.listen();
  }

  close() {
    this.suspend();
    this.abort?.abort();
    clearTimeout(this.again);
    this.lost = false;
    this.recent = [];
    this.missed = 0;
  }

  take(event) {
    const at = when(event.time);
    this.on.event(at);
    if (at !== null && (this.newest === null || at > this.newest)) this.newest = at;
    this.recent.push(performance.now());
    const { scope } = this;
    if (scope.stream.access && scope.site !== null && (event.site ?? "") !== scope.site) return;
    if (scope.stream.access && scope.path !== null && (event.path ?? "") !== scope.path) return;
    if (this.paused) {
      this.missed += 1;
      return;
    }
    if (event._id) {
      if (this.seen.has(event._id)) return;
      this.seen.add(event._id);
      if (this.seen.size > 5000) this.seen = new Set([...this.seen].slice(-500));
    }
    this.meanwhile?.push(event);
    this.fresh.push(event);
    if (this.fresh.length > ROWS_MAX) this.fresh.shift();
  }

  row(event, isNew = false) {
    return h("tr", { class: isNew ? "new" : null }, ...this.columns.map(([, cell]) => cell(event, this.scope.zone, this.on)));
  }

  draw() {
    const since = performance.now() - RATE_OVER_MS;
    while (this.recent.length > 0 && (this.recent[0] < since || this.recent.length > 200_000)) this.recent.shift();
    if (this.fresh.length > 0 && !this.paused) {
      const added = this.fresh.reverse().map((event) => this.row(event, true));
      this.fresh = [];
      this.rows.prepend(...added);
      while (this.rows.childElementCount > ROWS_MAX) this.rows.lastElementChild.remove();
    }
    this.say();
  }

  say() {
    if (!this.scope) return;
    const rate = this.recent.length / (RATE_OVER_MS / 1000);
    const text = this.paused
      ? `paused, ${count(this.missed)} new events not shown`
      : rate > 0 ? `${rate < 10 ? rate.toFixed(1) : count(rate)} events a second` : "the last stored events; new ones appear here";
    if (this.sub.textContent !== text) this.sub.textContent = text;
  }
}
