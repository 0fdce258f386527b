// The view: everything that decides what the page shows, and its form in the address.
//
// The address alone reproduces the view. A key that is absent has its default; `site` and `path`
// present but empty mean "null", as the empty path is null in the store.

import { BARS_MAX, DAY, HOUR, MINUTE, STEPS, back, ceil, floor, known, lengthOf, stepFor } from "./zone.js";

/// The ranges one can pick, in milliseconds back from now; "all" and "custom" are not among them.
export const RANGES = {
  "15m": { name: "15 min", title: "last 15 minutes", length: 15 * MINUTE },
  "1h": { name: "1 h", title: "last hour", length: HOUR },
  "24h": { name: "24 h", title: "last 24 hours", length: DAY },
  "7d": { name: "7 d", title: "last 7 days", length: 7 * DAY },
  "30d": { name: "30 d", title: "last 30 days", length: 30 * DAY },
};

/// The zone of the browser.
export function browserZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/// The view that an address asks for; what it leaves open is null and decided by the data.
export function fromAddress(search) {
  const query = new URLSearchParams(search);
  const from = Date.parse(query.get("from") ?? "");
  const to = Date.parse(query.get("to") ?? "");
  const asked = query.get("range");
  const custom = !Number.isNaN(from) && !Number.isNaN(to) && from < to;
  const zone = query.get("zone");
  return {
    stream: query.get("stream"),
    range: custom ? "custom" : (asked !== null && Object.hasOwn(RANGES, asked)) || asked === "all" ? asked : null,
    from: custom ? from : null,
    to: custom ? to : null,
    site: query.get("site"),
    path: query.get("path"),
    zone: zone && known(zone) ? zone : browserZone(),
    host: query.get("host"),
    date: /^\d{4}-\d\d-\d\d$/.test(query.get("date") ?? "") ? query.get("date") : null,
    slicePath: query.get("slice_path"),
    sliceClass: /^[1-5]$/.test(query.get("slice_class") ?? "") ? query.get("slice_class") : null,
    minute: minuteOf(query.get("minute")),
  };
}

function minuteOf(text) {
  const at = Date.parse(text ?? "");
  return Number.isNaN(at) ? null : floor(at, STEPS["1m"], "UTC");
}

const iso = (at) => new Date(at).toISOString().replace(".000Z", "Z");

/// The query string of a view, its keys always in the same order.
export function toAddress(view) {
  const query = new URLSearchParams();
  const put = (key, value) => {
    if (value !== null && value !== undefined) query.set(key, value);
  };
  put("stream", view.stream);
  if (view.range === "custom") {
    put("from", iso(view.from));
    put("to", iso(view.to));
  } else put("range", view.range);
  put("site", view.site);
  put("path", view.path);
  put("zone", view.zone);
  put("host", view.host);
  put("date", view.date);
  put("slice_path", view.slicePath);
  put("slice_class", view.sliceClass);
  put("minute", view.minute === null || view.minute === undefined ? null : iso(view.minute));
  return `?${query}`;
}

/// Events younger than this make a stream live: its charts end now.
const LIVE_MS = HOUR;

/// Whether events have come lately.
export function isLive(data, now) {
  return data.newest !== null && now - data.newest < LIVE_MS;
}

/// The instants that the view's range means at `now`: `{from, to, open, title, finest}`, whole
/// minutes, since that is the finest level of a rollup, or buckets of the level `finest` that holds
/// it. Every panel covers exactly this range, so totals equal the sums of the charts; `open` says
/// that the end is now.
export function resolve(view, data, now) {
  const range = asked(view, data, now);
  const finest = finestLevel(data.levels, range.from);
  const step = STEPS[FINEST[finest]];
  return { ...range, from: floor(range.from, step, "UTC"), to: ceil(range.to, step, "UTC"), finest };
}

/// Which step the buckets of a level have, the finest first.
const FINEST = { minutely: "1m", hourly: "1h", daily: "1d", monthly: "1mo", yearly: "1y" };

/// The finest level that still holds all from `from` on: retention takes fine buckets of old times
/// away, and a range back there is then cut at the coarser ones. `levels` maps tables to the
/// instant from which they are whole, null for ever; without rollups raw events answer.
export function finestLevel(levels, from) {
  if (!levels) return "minutely";
  const whole = Object.keys(FINEST).filter((table) => Object.hasOwn(levels, table) && (levels[table] === null || levels[table] <= from));
  return whole[0] ?? Object.keys(FINEST).filter((table) => Object.hasOwn(levels, table)).at(-1) ?? "minutely";
}

function asked(view, data, now) {
  const end = ceil(now + 1, STEPS["1m"], "UTC");
  const day = STEPS["1d"];
  if (view.range === "custom") {
    return { from: view.from, to: view.to, open: view.to > now, title: "chosen range" };
  }
  if (view.range === "all") {
    const from = floor(data.first ?? data.oldest ?? now, day, view.zone);
    if (isLive(data, now)) return { from, to: end, open: true, title: "all data" };
    return { from, to: ceil((data.newest ?? now) + 1, day, view.zone), open: false, title: "all data" };
  }
  const { length, title } = RANGES[view.range];
  if (length <= HOUR) return { from: end - length, to: end, open: true, title };
  if (length <= 7 * DAY) return { from: floor(now - length, STEPS["1h"], "UTC"), to: end, open: true, title };
  return { from: back(floor(now, day, view.zone), length / DAY - 1, day, view.zone), to: end, open: true, title };
}

/// The range to begin with: what is recent if anything is, else the last days that hold data.
export function firstRange(data, now, zone) {
  if (data.newest === null) return { range: "24h", from: null, to: null };
  if (now - data.newest < DAY) {
    // A store that began an hour ago shows its hour, not an empty day.
    const young = data.first !== null && now - data.first < 2 * HOUR;
    return { range: young ? "1h" : "24h", from: null, to: null };
  }
  return newestDays(data, zone);
}

/// The week that ends with the newest event, as a range of its own.
export function newestDays(data, zone) {
  const day = STEPS["1d"];
  const to = ceil(data.newest + 1, day, zone);
  const from = Math.max(back(to, 7, day, zone), floor(data.first ?? data.oldest, day, zone));
  return { range: "custom", from, to };
}

/// Returns whether a range holds nothing of a stream whose events lie between `first` and `newest`.
export function isOutside(range, data) {
  return data.newest !== null && (data.newest < range.from || (data.first ?? data.oldest) >= range.to);
}

const LADDERS = {
  minute: ["1m", "5m", "15m", "30m"],
  hour: ["1h", "3h", "6h", "12h"],
  day: ["1d", "1mo", "1y"],
};

/// The steps of the charts over a range: `minute`, `hour` and `day` for the hits, each the finest
/// of its unit with few enough bars, null where even the widest has too many or none would be
/// whole; `fit` for all other charts. One of the three is always there.
export function steps(range) {
  const length = range.to - range.from;
  const least = STEPS[FINEST[range.finest ?? "minutely"]];
  const wide = (step) => lengthOf(step) >= lengthOf(least);
  const fit = stepFor(length);
  const found = { fit: wide(fit) ? fit : least };
  for (const [kind, ladder] of Object.entries(LADDERS)) {
    const usable = ladder.map((id) => STEPS[id]).filter(wide);
    // The first and the last bar may be cut off by the range: two more than fit into it.
    const few = usable.find((step) => length / lengthOf(step) + 2 <= BARS_MAX);
    const step = few ?? (kind === "day" ? STEPS["1y"] : null);
    found[kind] = step && (step === least || kind === "minute" || length >= 2 * lengthOf(step)) ? step : null;
  }
  return found;
}
