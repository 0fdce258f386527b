// One panel: when it asks, that it never asks twice at once, and how it says what went wrong.

import { byId } from "./dom.js";

/// A query that took long is not repeated at once: the pause is this many times its duration.
const REST = 4;

/// How long a failed query waits before it is asked again.
const RETRY_MS = 5000;

export class Panel {
  /// `load(context, signal)` fetches, `draw(answer, context)` shows. `period` is the pause in ms between
  /// two polls while the view is live.
  constructor(id, { period, load, draw }) {
    this.node = byId(id);
    this.problem = this.node.querySelector(".problem");
    this.period = period;
    this.load = load;
    this.drawAnswer = draw;
    this.abort = null;
    this.due = 0;
    this.stale = true;
  }

  sub(text) {
    this.write(".sub", text);
  }

  figure(text) {
    this.write(".figure", text);
  }

  write(selector, text) {
    const node = this.node.querySelector(selector);
    if (node && node.textContent !== text) node.textContent = text;
  }

  /// The view has changed: what is under way no longer counts, and the panel asks again at once.
  reset() {
    this.abort?.abort();
    this.abort = null;
    this.due = 0;
    this.stale = true;
    this.node.classList.add("stale");
  }

  /// Stops what is under way, for a page that nobody sees.
  rest() {
    if (!this.abort) return;
    this.abort.abort();
    this.abort = null;
    this.due = 0;
  }

  /// Asks if it is time. `pace` stretches the period; Infinity asks only once per view.
  async tick(context, pace) {
    if (this.abort || this.node.hidden) return;
    if (!this.stale && (pace === Infinity || performance.now() < this.due)) return;
    const abort = new AbortController();
    this.abort = abort;
    const began = performance.now();
    try {
      const answer = await this.load.call(this, context, abort.signal);
      if (abort.signal.aborted) return;
      this.drawAnswer.call(this, answer, context);
      this.fail(null);
      this.stale = false;
      this.node.classList.remove("stale");
    } catch (error) {
      if (abort.signal.aborted) return;
      this.fail(error);
      // A failed first answer is asked for again, calmly.
      this.stale = false;
    }
    const took = performance.now() - began;
    this.due = performance.now() + Math.max(this.period * (pace === Infinity ? 1 : pace), REST * took, this.error ? RETRY_MS : 0);
    this.abort = null;
  }

  /// Shows an error in the panel, or takes it away. A server out of reach concerns every panel alike:
  /// the page says it once, above them, and the panels only fade.
  fail(error) {
    this.error = error;
    this.problem.hidden = !error || error.code === "unreachable";
    this.problem.textContent = error ? `${error.message}${error.hint ? ` — ${error.hint}` : ""}` : "";
    if (error) this.node.classList.add("stale");
  }
}
