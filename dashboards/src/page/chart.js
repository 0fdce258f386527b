// Bars and lines as SVG, drawn at the width they get.
//
// A model is `{starts, step, zone, from, to, open, series, format, kind, log}`: bucket starts in
// ms, the range, which may cut off the first and the last bucket, series of `{name, tone, values}`
// (null is "no value": a gap in a line, nothing in a bar). Bars stack in the order of the series.
// `open` marks the last bucket as still filling; it is drawn lighter. The read-out follows the
// pointer and the arrow keys.

import { byId, compact, count, h, s } from "./dom.js";
import { bucketName, next, rangeName, ticks } from "./zone.js";

const LEFT_MIN = 36;
const DIGIT_WIDTH = 6.4; // of the labels' 11 px type, generously
const RIGHT = 4;
const TOP = 8;
const BOTTOM = 22;
const LABEL_WIDTH = 58;
const HIDDEN = -9999; // left of any chart, however wide a bar is

/// The ends and steps of a linear axis: 3 to 5 round numbers from 0 to at least `max`.
export function scale(max, whole = true) {
  if (!(max > 0)) return { top: 1, marks: [0, 1] };
  const rough = max / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough * 0.999);
  if (whole) step = Math.max(1, step % 1 === 0 ? step : Math.ceil(step));
  const marks = [];
  for (let at = 0; marks.length === 0 || marks[marks.length - 1] < max; at += step) marks.push(at);
  return { top: marks[marks.length - 1], marks };
}

/// A logarithmic axis over bytes: powers of 4 (or 16, 64 …) around the values.
export function logScale(min, max) {
  const low = Math.floor(Math.log2(Math.max(1, min)) / 2);
  const high = Math.max(low + 1, Math.ceil(Math.log2(Math.max(2, max)) / 2));
  const every = Math.max(1, Math.ceil((high - low) / 4));
  const marks = [];
  for (let at = low; at < high + every; at += every) marks.push(4 ** at);
  return { bottom: marks[0], top: marks[marks.length - 1], marks };
}

export class Chart {
  /// `host` is an empty element; `onPick(from, to)` is called for a click on a bucket.
  constructor(host, { title, height = 150, onPick = null }) {
    this.host = host;
    this.title = title;
    this.height = height;
    this.onPick = onPick;
    this.model = null;
    this.at = null;
    this.left = LEFT_MIN;
    this.readout = h("div", { class: "readout", hidden: true });
    this.svg = s("svg", { role: "img", tabindex: "0", class: onPick ? "pickable" : null });
    host.classList.add("chart");
    host.style.setProperty("--chart-height", `${height}px`);
    host.replaceChildren(this.svg, this.readout);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.show(null));
    this.svg.addEventListener("blur", () => this.show(null));
    this.svg.addEventListener("click", () => this.pick());
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(host);
  }

  set(model) {
    this.model = model;
    this.draw();
  }

  geometry() {
    const width = Math.max(120, this.host.clientWidth);
    const n = this.model.starts.length;
    return { width, n, left: this.left, slot: (width - this.left - RIGHT) / Math.max(1, n), bottom: this.height - BOTTOM };
  }

  draw() {
    if (!this.model || this.host.clientWidth === 0) return;
    const { model } = this;
    const values = model.kind === "lines" ? model.series.flatMap((one) => one.values.filter((v) => v !== null)) : stacked(model);
    const max = Math.max(0, ...values);
    const axis = model.log ? logScale(Math.min(...values, Infinity) === Infinity ? 1 : Math.min(...values), max) : scale(max);
    const format = model.format?.axis ?? compact;
    this.left = Math.max(LEFT_MIN, ...axis.marks.map((mark) => Math.ceil(format(mark).length * DIGIT_WIDTH) + 12));
    const g = this.geometry();
    const y = model.log
      ? (v) => g.bottom - ((Math.log(Math.max(v, axis.bottom)) - Math.log(axis.bottom)) / (Math.log(axis.top) - Math.log(axis.bottom))) * (g.bottom - TOP)
      : (v) => g.bottom - (v / axis.top) * (g.bottom - TOP);
    const parts = [];
    for (const mark of axis.marks) {
      const line = Math.round(y(mark)) + 0.5;
      parts.push(s("line", { class: mark === axis.marks[0] ? "base" : "grid", x1: g.left, x2: g.width - RIGHT, y1: line, y2: line }));
      parts.push(s("text", { class: "mark", x: g.left - 8, y: line + 3.5, "text-anchor": "end", text: format(mark) }));
    }
    const labels = ticks(model.starts, model.step, model.zone, Math.max(1, Math.ceil(LABEL_WIDTH / g.slot)));
    for (const [i, text] of labels) {
      const x = g.left + i * g.slot + (model.kind === "lines" || g.slot > 14 ? g.slot / 2 : 0);
      if (x > g.width - 18) continue;
      const day = /^\d+ [A-Z]/.test(text) && model.step.fixed;
      parts.push(s("text", { class: day ? "mark day" : "mark", x, y: this.height - 6, "text-anchor": "middle", text }));
    }
    this.band = s("rect", { class: "band", y: TOP, height: g.bottom - TOP, width: Math.max(1, g.slot), x: HIDDEN });
    parts.push(this.band);
    parts.push(...(model.kind === "lines" ? lines(model, g, y) : bars(model, g, y)));
    if (max === 0 && values.every((v) => v === 0)) {
      parts.push(s("text", { class: "vacant", x: (g.left + g.width) / 2, y: (TOP + g.bottom) / 2 + 4, "text-anchor": "middle", text: "no events here" }));
    }
    this.svg.setAttribute("viewBox", `0 0 ${g.width} ${this.height}`);
    this.svg.setAttribute("width", g.width);
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("aria-label", this.summary());
    this.svg.replaceChildren(...parts);
    if (this.at !== null) this.show(Math.min(this.at, g.n - 1));
  }

  summary() {
    const { model } = this;
    const format = model.format?.value ?? count;
    const series = model.series.map((one) => {
      const filled = one.values.filter((v) => v !== null);
      if (filled.length === 0) return `${one.name}: none`;
      return `${one.name}: highest ${format(Math.max(...filled))}, last ${format(filled[filled.length - 1])}`;
    });
    return `${this.title}, by ${model.step.name}, ${model.starts.length} buckets. ${series.join("; ")}. Arrow keys read the values.`;
  }

  point(event) {
    if (!this.model) return;
    const box = this.svg.getBoundingClientRect();
    const g = this.geometry();
    const i = Math.floor((event.clientX - box.left - g.left) / g.slot);
    this.show(i >= 0 && i < g.n ? i : null);
  }

  key(event) {
    if (!this.model) return;
    const last = this.model.starts.length - 1;
    const at = this.at ?? last + 1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (to !== undefined) this.show(Math.min(last, Math.max(0, to)));
    else if (event.key === "Enter") this.pick();
    else if (event.key === "Escape") this.show(null);
    else return;
    event.preventDefault();
  }

  pick() {
    if (!this.onPick || this.at === null || !this.model) return;
    this.onPick(...this.bucket(this.at));
  }

  /// The range of bucket `i`: all of it, or the part that lies within the chosen range.
  bucket(i) {
    const { starts, step, zone, from, to } = this.model;
    return [Math.max(from, starts[i]), Math.min(to, next(starts[i], step, zone))];
  }

  /// Shows the read-out of bucket `i`, or hides it.
  show(i) {
    this.at = i;
    if (i === null || !this.model || i < 0) {
      this.readout.hidden = true;
      this.band?.setAttribute("x", HIDDEN);
      return;
    }
    const { model } = this;
    const g = this.geometry();
    const left = g.left + i * g.slot;
    this.band.setAttribute("x", left);
    const [from, to] = this.bucket(i);
    const whole = from === model.starts[i] && to === next(from, model.step, model.zone);
    const format = model.format?.value ?? count;
    const rows = [...model.series].reverse().map((one) => h("div", { class: "readout-row" },
      h("span", { class: `swatch ${one.tone}` }),
      h("span", { class: "readout-name", text: one.name }),
      h("b", { text: format(one.values[i]) })));
    const filling = model.open && i === g.n - 1 ? " · so far" : "";
    this.readout.replaceChildren(h("div", { class: "readout-when", text: (whole ? bucketName(from, to, model.step, model.zone) : rangeName(from, to, model.zone)) + filling }), ...rows);
    this.readout.hidden = false;
    const wide = this.readout.offsetWidth;
    const beside = left + g.slot + 8;
    const x = beside + wide > g.width ? Math.max(0, left - wide - 8) : beside;
    this.readout.style.setProperty("transform", `translate(${Math.round(x)}px, 4px)`);
  }
}

function stacked(model) {
  return model.starts.map((_, i) => model.series.reduce((sum, one) => sum + (one.values[i] ?? 0), 0));
}

/// One path per series: a few hundred bars are cheap to draw and to restyle.
function bars(model, g, y) {
  const gap = g.slot >= 5 ? Math.min(3, g.slot * 0.22) : g.slot >= 3 ? 0.6 : 0;
  const floor = new Array(g.n).fill(0);
  const found = [];
  for (const one of model.series) {
    let solid = "";
    let light = "";
    one.values.forEach((value, i) => {
      if (!value) return;
      const bottom = y(floor[i]);
      floor[i] += value;
      // Anything that was counted is seen: at least a pixel.
      const top = Math.min(y(floor[i]), bottom - 1);
      const x = g.left + i * g.slot + gap / 2;
      const path = `M${x.toFixed(2)} ${bottom.toFixed(2)}V${top.toFixed(2)}h${(g.slot - gap).toFixed(2)}V${bottom.toFixed(2)}z`;
      if (model.open && i === g.n - 1) light += path;
      else solid += path;
    });
    if (solid) found.push(s("path", { class: `bar ${one.tone}`, d: solid }));
    if (light) found.push(s("path", { class: `bar open ${one.tone}`, d: light }));
  }
  return found;
}

function lines(model, g, y) {
  const found = [];
  for (const one of model.series) {
    let d = "";
    const alone = [];
    one.values.forEach((value, i) => {
      if (value === null) return;
      const x = g.left + (i + 0.5) * g.slot;
      const joined = i > 0 && one.values[i - 1] !== null;
      if (!joined && (i + 1 >= g.n || one.values[i + 1] === null)) alone.push(s("circle", { class: `dot ${one.tone}`, cx: x, cy: y(value), r: 2.5 }));
      d += `${joined ? "L" : "M"}${x.toFixed(2)} ${y(value).toFixed(2)}`;
    });
    if (d) found.push(s("path", { class: `line ${one.tone}`, d }));
    found.push(...alone);
  }
  return found;
}

/// Values for every start, from rows with `t`: what is absent reads as `none` (0, or null).
export function align(starts, rows, column, none) {
  const byStart = new Map(rows.map((row) => [typeof row.t === "number" ? row.t : Date.parse(row.t), row[column]]));
  return starts.map((start) => byStart.get(start) ?? none);
}

/// The chart host with this id.
export function chartAt(id, options) {
  return new Chart(byId(id), options);
}
