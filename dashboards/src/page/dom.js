// Elements and numbers.
//
// Log text is hostile. Everything the page shows passes through `h` or `s`, which know only
// textContent and attributes from a short list; no string is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/// An HTML element. `props` may hold `class`, `text`, `on` (event → handler), `data` and any
/// plain attribute; children are nodes or strings (null and undefined are left out).
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/// An SVG element, with the same properties as `h`.
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [type, run] of Object.entries(value)) node.addEventListener(type, run);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

/// The element with this id; a missing one is a fault of the page itself.
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element "${id}"`);
  return node;
}

/// A link for text from a log: only http and https addresses become links, the rest stays text.
export function outsideLink(text) {
  let url = null;
  try {
    url = new URL(text);
  } catch {
    return logText(text);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return logText(text);
  return h("a", { href: url.href, rel: "noopener noreferrer", target: "_blank" }, logText(text));
}

const grouped = new Intl.NumberFormat("en-US");

/// 1234567 → "1,234,567"; null → "–".
export function count(n) {
  return n === null || n === undefined ? "–" : grouped.format(Math.round(n));
}

/// 1234567 → "1.2M": for axes and tiles, at most three digits.
export function compact(n) {
  if (n === null || n === undefined) return "–";
  const units = ["", "k", "M", "G", "T"];
  let unit = 0;
  let value = Math.abs(n);
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit > 0 && value < 99.95 && value % 1 !== 0 ? (value < 9.995 ? 2 : 1) : 0;
  const text = value.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  return (n < 0 ? "−" : "") + text + units[unit];
}

/// Bytes in binary units: 2326 → "2.3 KiB".
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let value = n;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit > 0 && value < 100 ? (value < 10 ? 2 : 1) : 0;
  return `${value.toFixed(digits).replace(/\.0+$/, "")} ${units[unit]}`;
}

/// A share of a whole in percent; a share too small to print says so instead of reading 0.
export function percent(part, whole) {
  if (!whole) return "–";
  const value = (100 * part) / whole;
  if (value === 0) return "0 %";
  if (value < 0.01) return "< 0.01 %";
  return `${value < 1 ? value.toFixed(2) : value < 10 ? value.toFixed(1) : value.toFixed(0)} %`;
}

/// A length of time in words as short as they can be: "4 s", "3 min", "2 h", "11 years".
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  const days = Math.round(seconds / 86400);
  if (days < 60) return `${days} days`;
  if (days < 700) return `${Math.floor(days / 30.44)} months`;
  const years = Math.floor(days / 365.25);
  return years === 1 ? "1 year" : `${years} years`;
}

const SHOWN_MAX = 300;
const TITLE_MAX = 2000;

/// Text from a log, cut to what can be read at a glance (the whole of it, nearly, as a tooltip).
/// The class isolates its direction, so that override characters cannot reorder the page.
export function logText(value, none = "–") {
  if (value === null || value === undefined) return h("span", { class: "none", text: none });
  const text = String(value);
  const cut = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
  return h("span", { class: "log", text: cut, title: text.length > 40 ? text.slice(0, TITLE_MAX) : null });
}

/// A button whose label is text from a log.
export function logButton(value, { none, label, run }) {
  return h("button", { type: "button", class: "link", "aria-label": label, on: { click: run } }, logText(value, none));
}

/// The status of an event as a small mark in the colour of its class.
export function statusMark(status) {
  if (status === null || status === undefined) return h("span", { class: "none", text: "–" });
  const tone = status >= 200 && status < 600 ? `s${Math.floor(status / 100)}` : "other";
  return h("span", { class: `status ${tone}`, text: String(status) });
}
