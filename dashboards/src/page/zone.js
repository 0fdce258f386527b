// Instants, calendar buckets and labels in an IANA time zone.
//
// Instants are milliseconds since 1970 in UTC; "wall" is the same count read off a clock in the
// zone. Minutes and hours are cut in UTC, as the rollups cut them; days and months begin where
// the zone says, so a day may last 23, 24½ or 25 hours. Ranges are half-open.

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const QUARTER = 15 * MINUTE; // offsets change only on a quarter of an hour
const formats = new Map();
const offsets = new Map();

/// Whether the browser knows this zone.
export function known(zone) {
  try {
    format(zone);
    return true;
  } catch {
    return false;
  }
}

function format(zone) {
  let made = formats.get(zone);
  if (!made) {
    made = new Intl.DateTimeFormat("en-US", {
      timeZone: zone, hourCycle: "h23", era: "short",
      year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
    });
    formats.set(zone, made);
  }
  return made;
}

/// What the zone adds to UTC at this instant, in milliseconds.
export function offset(at, zone) {
  if (zone === "UTC") return 0;
  const quarter = Math.floor(at / QUARTER);
  const key = `${zone} ${quarter}`;
  let found = offsets.get(key);
  if (found === undefined) {
    const part = {};
    for (const { type, value } of format(zone).formatToParts(quarter * QUARTER)) part[type] = value;
    const year = part.era === "BC" ? 1 - Number(part.year) : Number(part.year);
    found = Date.UTC(year, part.month - 1, part.day, part.hour, part.minute, part.second) - quarter * QUARTER;
    if (offsets.size > 20_000) offsets.clear();
    offsets.set(key, found);
  }
  return found;
}

/// The first instant at which clocks in the zone show `wall` or, where that is skipped, later.
export function fromWall(wall, zone) {
  const before = offset(wall - DAY, zone);
  const after = offset(wall + DAY, zone);
  const candidates = [wall - before, wall - after].sort((a, b) => a - b);
  for (const at of candidates) if (at + offset(at, zone) === wall) return at;
  return wall - before;
}

/// The calendar fields of an instant in the zone.
export function parts(at, zone) {
  const wall = new Date(at + offset(at, zone));
  return {
    year: wall.getUTCFullYear(), month: wall.getUTCMonth(), day: wall.getUTCDate(), weekday: wall.getUTCDay(),
    hour: wall.getUTCHours(), minute: wall.getUTCMinutes(), second: wall.getUTCSeconds(), ms: wall.getUTCMilliseconds(),
  };
}

/// The bucket widths that charts use, finest first. `fixed` is the length in ms where it is one.
export const STEPS = {
  "1m": { id: "1m", unit: "minute", name: "minute", width: "1 minute", fixed: MINUTE },
  "5m": { id: "5m", unit: "minute", name: "5 minutes", width: "5 minutes", fixed: 5 * MINUTE },
  "15m": { id: "15m", unit: "minute", name: "15 minutes", width: "15 minutes", fixed: 15 * MINUTE },
  "30m": { id: "30m", unit: "minute", name: "30 minutes", width: "30 minutes", fixed: 30 * MINUTE },
  "1h": { id: "1h", unit: "hour", name: "hour", width: "1 hour", fixed: HOUR },
  "3h": { id: "3h", unit: "hour", name: "3 hours", width: "3 hours", fixed: 3 * HOUR },
  "6h": { id: "6h", unit: "hour", name: "6 hours", width: "6 hours", fixed: 6 * HOUR },
  "12h": { id: "12h", unit: "hour", name: "12 hours", width: "12 hours", fixed: 12 * HOUR },
  "1d": { id: "1d", unit: "day", name: "day", width: "1 day", about: DAY },
  "1mo": { id: "1mo", unit: "month", name: "month", width: "1 month", about: 30 * DAY },
  "1y": { id: "1y", unit: "year", name: "year", width: "1 year", about: 365 * DAY },
};

/// About how long a bucket of this step is, in milliseconds.
export function lengthOf(step) {
  return step.fixed ?? step.about;
}

/// No chart has more bars than this; years, the widest step, reach back further than any log.
export const BARS_MAX = 400;

/// The step that gives a range of this length about a hundred buckets.
export function stepFor(length) {
  if (length <= 2 * HOUR) return STEPS["1m"];
  if (length <= 8 * HOUR) return STEPS["5m"];
  if (length <= 36 * HOUR) return STEPS["15m"];
  if (length <= 8 * DAY) return STEPS["1h"];
  if (length <= 24 * DAY) return STEPS["3h"];
  if (length <= (BARS_MAX - 2) * DAY) return STEPS["1d"];
  return length <= (BARS_MAX - 4) * 30 * DAY ? STEPS["1mo"] : STEPS["1y"];
}

/// The start of the bucket that holds `at`.
export function floor(at, step, zone) {
  if (step.fixed) return Math.floor(at / step.fixed) * step.fixed;
  const { year, month, day } = parts(at, zone);
  return fromWall(Date.UTC(year, step.unit === "year" ? 0 : month, step.unit === "day" ? day : 1), zone);
}

/// The end of the bucket that starts at `start`.
export function next(start, step, zone) {
  if (step.fixed) return start + step.fixed;
  const { year, month, day } = parts(start, zone);
  if (step.unit === "year") return fromWall(Date.UTC(year + 1, 0, 1), zone);
  return fromWall(step.unit === "day" ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1), zone);
}

/// The end of the bucket that holds `at`, or `at` itself where it is a boundary.
export function ceil(at, step, zone) {
  const start = floor(at, step, zone);
  return start === at ? at : next(start, step, zone);
}

/// The start `n` buckets before the boundary `at`.
export function back(at, n, step, zone) {
  if (step.fixed) return at - n * step.fixed;
  let start = at;
  for (let i = 0; i < n; i += 1) start = floor(start - 1, step, zone);
  return start;
}

/// Every bucket start in `[from, to)`, at most `max` of them (the newest are kept).
export function starts(from, to, step, zone, max = 2000) {
  const all = [];
  for (let at = floor(from, step, zone); at < to; at = next(at, step, zone)) all.push(at);
  return all.length > max ? all.slice(all.length - max) : all;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const two = (n) => String(n).padStart(2, "0");

export const label = {
  /// 13:55
  clock: (at, zone) => { const p = parts(at, zone); return `${two(p.hour)}:${two(p.minute)}`; },
  /// 13:55:36
  seconds: (at, zone) => { const p = parts(at, zone); return `${two(p.hour)}:${two(p.minute)}:${two(p.second)}`; },
  /// 2000-10-10
  date: (at, zone) => { const p = parts(at, zone); return `${String(p.year).padStart(4, "0")}-${two(p.month + 1)}-${two(p.day)}`; },
  /// 10 Oct
  day: (at, zone) => { const p = parts(at, zone); return `${p.day} ${MONTHS[p.month]}`; },
  /// Tue 10 Oct 2000
  longDay: (at, zone) => { const p = parts(at, zone); return `${WEEKDAYS[p.weekday]} ${p.day} ${MONTHS[p.month]} ${p.year}`; },
  /// Oct 2000
  month: (at, zone) => { const p = parts(at, zone); return `${MONTHS[p.month]} ${p.year}`; },
  /// 2000-10-10 13:55
  minute: (at, zone) => `${label.date(at, zone)} ${label.clock(at, zone)}`,
  /// 2000-10-10 13:55:36
  full: (at, zone) => `${label.date(at, zone)} ${label.seconds(at, zone)}`,
};

/// The name of one bucket, for read-outs.
export function bucketName(start, end, step, zone) {
  if (step.unit === "year") return String(parts(start, zone).year);
  if (step.unit === "month") return label.month(start, zone);
  if (step.unit === "day") return label.longDay(start, zone);
  return `${label.longDay(start, zone)}, ${label.clock(start, zone)}–${label.clock(end, zone)}`;
}

/// The name of a range: days where it is made of days, the clock where it is not.
export function rangeName(from, to, zone) {
  const whole = floor(from, STEPS["1d"], zone) === from && floor(to, STEPS["1d"], zone) === to;
  if (whole) {
    const last = floor(to - 1, STEPS["1d"], zone);
    return last === from ? label.date(from, zone) : `${label.date(from, zone)} to ${label.date(last, zone)}`;
  }
  const same = label.date(from, zone) === label.date(to, zone);
  return `${label.minute(from, zone)} to ${same ? label.clock(to, zone) : label.minute(to, zone)}`;
}

/// The offset at an instant as people write it: "UTC+05:30".
export function offsetName(at, zone) {
  const minutes = Math.round(offset(at, zone) / MINUTE);
  if (minutes === 0) return "UTC";
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/// "2015-05-20" or "2015-05-20T13:55" on a clock in the zone → an instant, or null.
export function parseWall(text, zone) {
  const found = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?$/.exec(text ?? "");
  if (!found) return null;
  const [, year, month, day, hour = "0", minute = "0", second = "0"] = found;
  const wall = Date.UTC(year, month - 1, day, hour, minute, second);
  const back = new Date(wall);
  if (back.getUTCMonth() !== month - 1 || back.getUTCDate() !== Number(day) || hour > 23 || minute > 59) return null;
  return fromWall(wall, zone);
}

/// An instant as the value of an <input type="datetime-local">.
export function wallInput(at, zone) {
  return `${label.date(at, zone)}T${label.clock(at, zone)}`;
}

/// Which of these bucket starts carry a label, so that labels stand at least `gap` buckets apart:
/// pairs of index and text. Labels stand on round clock times; a day's first label is its date.
export function ticks(list, step, zone, gap) {
  if (list.length === 0) return [];
  const at = (i) => parts(list[i], zone);
  if (step.unit === "year") {
    const every = [1, 2, 5, 10, 20, 50].find((y) => y >= gap) ?? 100;
    return list.flatMap((start, i) => (at(i).year % every === 0 ? [[i, String(at(i).year)]] : []));
  }
  if (step.unit === "minute" || step.unit === "hour") {
    const perBucket = step.fixed / MINUTE;
    const every = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].find((m) => m / perBucket >= gap);
    const found = [];
    if (every) {
      // Buckets are cut in UTC: where that is no round clock time in the zone, the first after one
      // counts.
      const slack = step.unit === "hour" ? perBucket - 1 : 0;
      list.forEach((start, i) => {
        const p = at(i);
        const minute = p.hour * 60 + p.minute;
        if (minute % every > Math.min(slack, every - 1)) return;
        found.push([i, minute <= slack ? label.day(start, zone) : label.clock(start, zone)]);
      });
      return found;
    }
  }
  if (step.unit === "month") {
    const every = [1, 2, 3, 6, 12, 24, 60].find((m) => m >= gap) ?? 120;
    return list.flatMap((start, i) => {
      const p = at(i);
      return (p.year * 12 + p.month) % every === 0 ? [[i, every >= 12 ? String(p.year) : label.month(start, zone)]] : [];
    });
  }
  const perDay = step.unit === "day" ? 1 : DAY / step.fixed;
  const days = [1, 2, 7, 14, 28, 56].find((d) => d * perDay >= gap) ?? 112;
  return list.flatMap((start, i) => {
    const p = at(i);
    const number = Math.floor(Date.UTC(p.year, p.month, p.day) / DAY);
    const first = i === 0 || label.date(list[i - 1], zone) !== label.date(start, zone);
    return first && (p.hour === 0 || !step.fixed || step.fixed > HOUR) && number % days === 0 ? [[i, label.day(start, zone)]] : [];
  });
}
