// The view: everything that decides what the page shows, and its form in the address.
//
// The address alone reproduces the view. A key that is absent has its default; `site` and `path`
// present but empty mean "null", as the empty path is null in the store.

import { DAY, HOUR, MINUTE, STEPS, back, ceil, floor, known } from "./zone.js";

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
  };
}

/// The query string of a view, its keys always in the same order.
export function toAddress(view) {
  const query = new URLSearchParams();
  const put = (key, value) => {
    if (value !== null && value !== undefined) query.set(key, value);
  };
  put("stream", view.stream);
  if (view.range === "custom") {
    put("from", new Date(view.from).toISOString().replace(".000Z", "Z"));
    put("to", new Date(view.to).toISOString().replace(".000Z", "Z"));
  } else put("range", view.range);
  put("site", view.site);
  put("path", view.path);
  put("zone", view.zone);
  put("host", view.host);
  put("date", view.date);
  put("slice_path", view.slicePath);
  put("slice_class", view.sliceClass);
  return `?${query}`;
}

/// Events younger than this make a stream live: its charts end now.
const LIVE_MS = HOUR;

/// Whether events have come lately.
export function isLive(data, now) {
  return data.newest !== null && now - data.newest < LIVE_MS;
}

/// The instants that the view's range means at `now`: `{from, to, open, title}`. They are cut where
/// a bucket ends, so that totals equal the sums of the charts; `open` says that the end is now.
export function resolve(view, data, now) {
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

/// The windows of the three hit charts. They end with the range, or with its newest event where
/// the range goes on after it, and are at least an hour, a day and a week long.
export function windows(range, data, zone, now) {
  let end = range.to;
  if (!range.open && data.newest !== null && data.newest >= range.from && data.newest < range.to) end = data.newest + 1;
  if (range.open) end = now + 1;
  const length = range.to - range.from;
  const minuteEnd = ceil(end, STEPS["1m"], "UTC");
  const hourEnd = ceil(end, STEPS["1h"], "UTC");
  const hourFrom = Math.max(hourEnd - 7 * DAY - HOUR, Math.min(floor(range.from, STEPS["1h"], "UTC"), hourEnd - DAY));
  const dayStep = length > 400 * DAY ? STEPS["1mo"] : STEPS["1d"];
  const dayEnd = ceil(end, dayStep, zone);
  let dayFrom = length > 30 * DAY ? floor(range.from, dayStep, zone) : back(dayEnd, 30, dayStep, zone);
  const oldest = data.first ?? data.oldest;
  if (oldest !== null) dayFrom = Math.max(dayFrom, Math.min(floor(oldest, dayStep, zone), back(dayEnd, 7, dayStep, zone)));
  return {
    minute: { from: minuteEnd - HOUR, to: minuteEnd, step: STEPS["1m"], open: minuteEnd > now },
    hour: { from: hourFrom, to: hourEnd, step: STEPS["1h"], open: hourEnd > now },
    day: { from: dayFrom, to: dayEnd, step: dayStep, open: dayEnd > now },
  };
}
