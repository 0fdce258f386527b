// One panel: what it asks in a round, and how it says what went wrong.
//
// All panels ask in one round (`Rounds`): with the same range, and drawn together, so that figures
// side by side belong to each other. A panel that fails fades, says why, and asks again by itself
// until it has an answer, whatever the pace of the others.

import { byId } from "./dom.js";

/// A round that took long is not repeated at once: the pause is this many times its duration.
export const REST = 4;

/// How long a failed query waits before it is asked again.
export const RETRY_MS = 5000;

export class Panel {
  /// `load(context, signal)` fetches, `draw(answer, context)` shows.
  constructor(id, { load, draw }) {
    this.node = byId(id);
    this.load = load;
    this.drawAnswer = draw;
    this.stale = true;
    this.error = null;
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

  /// The view has changed: what is shown no longer counts.
  reset() {
    this.stale = true;
    this.node.classList.add("stale");
  }

  /// Asks, and resolves to what shows the answer. A first answer is shown as soon as it is there.
  async ask(context, signal) {
    let show = null;
    try {
      const answer = await this.load.call(this, context, signal);
      show = () => {
        try {
          this.drawAnswer.call(this, answer, context);
          this.settle(null);
        } catch (error) {
          this.settle(error);
        }
      };
    } catch (error) {
      show = () => this.settle(error);
    }
    if (signal.aborted) return () => {};
    if (!this.stale) return show;
    show();
    return () => {};
  }

  settle(error) {
    this.error = error;
    this.stale = Boolean(error);
    fail(this.node, error);
  }
}

/// Shows an error in a panel, or takes it away. A server out of reach concerns every panel alike:
/// the page says it once, above them, and the panels only fade.
export function fail(node, error) {
  const problem = node.querySelector(".problem");
  problem.hidden = !error || error.code === "unreachable";
  problem.textContent = error ? `${error.message}${error.hint ? ` — ${error.hint}` : ""}` : "";
  node.classList.toggle("stale", Boolean(error));
}

/// The rounds of several panels: one at a time, and none while nobody looks.
export class Rounds {
  constructor(panels, period) {
    this.panels = panels;
    this.period = period;
    this.abort = null;
    this.due = 0;
  }

  /// The view has changed: the round under way no longer counts, and the next one begins at once.
  reset() {
    this.rest();
    for (const panel of this.panels) panel.reset();
  }

  rest() {
    this.abort?.abort();
    this.abort = null;
    this.due = 0;
  }

  /// Begins a round if it is time. `pace` stretches the pause; with Infinity only panels without an
  /// answer ask.
  async tick(makeContext, pace) {
    if (this.abort || performance.now() < this.due) return;
    const asked = this.panels.filter((panel) => !panel.node.hidden && (pace !== Infinity || panel.stale));
    if (asked.length === 0) return;
    const abort = new AbortController();
    this.abort = abort;
    const context = makeContext();
    const began = performance.now();
    const shows = await Promise.all(asked.map((panel) => panel.ask(context, abort.signal)));
    if (abort.signal.aborted) return;
    for (const show of shows) show();
    const now = performance.now();
    const failed = asked.some((panel) => panel.error);
    this.due = now + Math.max(this.period * (pace === Infinity ? 1 : pace), REST * (now - began), failed ? RETRY_MS : 0);
    this.abort = null;
  }
}
