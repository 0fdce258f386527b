// Tests of the page's modules that need no browser. Run by `cargo test`, where Node is installed.

import assert from "node:assert/strict";
import { align, logScale, scale } from "./chart.js";
import { bytes, compact, percent } from "./dom.js";
import * as ask from "./queries.js";
import { instant, is, text } from "./sql.js";
import { sliceOf, summaryText } from "./slice.js";
import { firstRange, fromAddress, isOutside, resolve, steps, toAddress } from "./state.js";
import * as zone from "./zone.js";

const { BARS_MAX, DAY, HOUR, MINUTE, STEPS } = zone;
const tests = [];
const test = (name, run) => tests.push([name, run]);
const at = (iso) => Date.parse(iso);

const HOSTILE = ["'", "''", "'; DROP TABLE access; --", "\\'", "</script><script>alert(1)</script>", "\u202e\u0000", "a'||'b", "\u2019"];

const LEVELS = ["1y", "1mo", "1d", "1h", "1m"].map((id) => ({ table: id, step: STEPS[id] }));

// A small generator: the same numbers on every run.
let seed = 20001010;
const random = () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
};

test("a literal keeps hostile text inside its quotes", () => {
  assert.equal(text("O'Brien'; --"), "'O''Brien''; --'");
  assert.equal(is("path", ""), "path IS NULL");
  assert.equal(instant(at("2000-10-10T20:55:36Z")), "TIMESTAMP '2000-10-10T20:55:36.000Z'");
});

test("no statement lets hostile values out of their literals", () => {
  const stream = ask.describe({ name: "access", kind: "access", rollups: ["stats", "traffic"] });
  const range = { from: at("2026-11-01T00:00:00Z"), to: at("2026-11-20T10:30:00Z"), open: false };
  const make = (site, path, host) => {
    const scope = { stream, zone: "Europe/Berlin", site, path, utcDays: true };
    const day = STEPS["1d"];
    const asked = { host, from: range.from, to: range.to, path, statusClass: "5" };
    return [
      ask.board(scope, range, steps(range)), ask.visitors(scope, range),
      ask.visitorSeries(scope, day, range), ask.topPaths(scope, range),
      ask.sizes(scope, day, range), ask.lastEvents(scope, range.from, 50), ask.newestHost(scope, range.from),
      ask.sliceSummary(stream, asked), ask.slicePage(stream, asked, 7), ask.slicePage(stream, asked, 7, { time: host, _seq: 3 }),
    ].map((sql) => sql.replaceAll(/'(?:[^']|'')*'/g, "?"));
  };
  const calm = make("site", "/path", "host");
  for (const evil of HOSTILE) assert.deepEqual(make(evil, evil, evil), calm);
});

test("an empty path asks for null, an absent one for all pages", () => {
  const stream = ask.describe({ name: "web", kind: "access", rollups: ["web_stats", "web_traffic"] });
  const range = { from: 0, to: DAY, open: false };
  const scope = { stream, zone: "UTC", site: null, path: "", utcDays: true };
  assert.match(ask.board(scope, range, steps(range)), /FROM "web_stats"\."hourly" .* AND path IS NULL/);
  assert.match(ask.board({ ...scope, path: null }, range, steps(range)), /FROM "web_traffic"\."hourly" (?!.*path)/);
});

test("the levels cover a range without gap or overlap, coarse inside and fine at the ends", () => {
  for (let i = 0; i < 500; i += 1) {
    const from = Math.floor((random() * 400 * DAY) / MINUTE) * MINUTE + at("2019-12-01T00:00:00Z");
    const to = from + MINUTE * (1 + Math.floor(random() ** 4 * 500_000));
    const pieces = ask.cover(from, to, LEVELS);
    assert.equal(pieces[0][1], from);
    assert.equal(pieces[pieces.length - 1][2], to);
    pieces.forEach(([table, a, b], n) => {
      assert.ok(a < b);
      if (n > 0) assert.equal(a, pieces[n - 1][2]);
      assert.equal(zone.floor(a, STEPS[table], "UTC"), a);
      assert.equal(zone.floor(b, STEPS[table], "UTC"), b);
    });
    assert.ok(pieces.length <= 9);
  }
});

test("local days last 23, 24.5 or 25 hours where clocks change", () => {
  const length = (date, name) => {
    const start = zone.parseWall(date, name);
    return (zone.next(start, STEPS["1d"], name) - start) / HOUR;
  };
  assert.equal(length("2026-03-29", "Europe/Berlin"), 23);
  assert.equal(length("2026-10-25", "Europe/Berlin"), 25);
  assert.equal(length("2026-10-04", "Australia/Lord_Howe"), 23.5);
  assert.equal(length("2026-04-05", "Australia/Lord_Howe"), 24.5);
  assert.equal(length("2026-06-01", "Asia/Kathmandu"), 24);
  // Midnight of this day does not exist: it begins at one o'clock.
  const start = zone.parseWall("2018-11-04", "America/Sao_Paulo");
  assert.equal(new Date(start).toISOString(), "2018-11-04T03:00:00.000Z");
  assert.equal(zone.label.minute(start, "America/Sao_Paulo"), "2018-11-04 01:00");
});

test("buckets tile time in every zone and step", () => {
  for (const name of ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia"]) {
    for (const step of Object.values(STEPS)) {
      for (let i = 0; i < 40; i += 1) {
        const when = Math.floor(at("2010-01-01T00:00:00Z") + random() * 16 * 365 * DAY);
        const start = zone.floor(when, step, name);
        const end = zone.next(start, step, name);
        assert.ok(start <= when && when < end, `${name} ${step.id} ${new Date(when).toISOString()}`);
        assert.equal(zone.floor(start, step, name), start);
        assert.equal(zone.floor(end - 1, step, name), start);
        assert.equal(zone.back(end, 1, step, name), start);
      }
    }
  }
});

test("a date and a clock in a zone are read back as written", () => {
  for (const name of ["UTC", "Europe/Berlin", "Asia/Kolkata"]) {
    for (const written of ["2015-05-20T21:05", "2026-03-29T03:00", "1999-12-31T23:59"]) {
      assert.equal(zone.wallInput(zone.parseWall(written, name), name), written);
    }
  }
  for (const wrong of ["", "2026-02-30", "2026-13-01", "20.5.2015", "2026-01-01T25:00"]) assert.equal(zone.parseWall(wrong, "UTC"), null);
});

test("labels of an axis keep their distance", () => {
  for (const [step, length] of [["1m", HOUR], ["5m", 6 * HOUR], ["15m", DAY], ["1h", 7 * DAY], ["3h", 20 * DAY], ["12h", 100 * DAY], ["1d", 90 * DAY], ["1mo", 4000 * DAY], ["1y", 36_000 * DAY]]) {
    for (const name of ["UTC", "Asia/Kolkata", "America/New_York"]) {
      for (const gap of [1, 3, 8, 20]) {
        const to = at("2026-11-20T10:00:00Z");
        const list = zone.starts(to - length, to, STEPS[step], name);
        const found = zone.ticks(list, STEPS[step], name, gap);
        for (let i = 1; i < found.length; i += 1) {
          // A change of the clock may bring two labels an hour nearer to each other.
          assert.ok(found[i][0] - found[i - 1][0] >= gap - 4, `${step} ${name} ${gap}: ${JSON.stringify(found)}`);
        }
        if (list.length > 2 * gap && gap < 20) assert.ok(found.length > 0, `${step} ${name} ${gap}`);
      }
    }
  }
});

test("absent buckets read as nothing counted", () => {
  const list = zone.starts(0, 4 * MINUTE, STEPS["1m"], "UTC");
  const rows = [{ t: "1970-01-01T00:01:00Z", hits: 7 }, { t: "1970-01-01T00:03:00.000Z", hits: 2 }];
  assert.deepEqual(align(list, rows, "hits", 0), [0, 7, 0, 2]);
  assert.deepEqual(align(list, rows, "p99", null), [null, null, null, null]);
});

test("the address reproduces the view", () => {
  const view = {
    stream: "access", range: "custom", from: at("2015-05-17T00:00:00Z"), to: at("2015-05-21T12:30:00Z"), site: "", path: "/a b?c&d=é#'\"<script>",
    zone: "Europe/Berlin", host: "2001:db8::1", date: "2015-05-18", slicePath: "/x", sliceClass: "5", minute: at("2015-05-18T12:03:00Z"),
  };
  assert.deepEqual(fromAddress(toAddress(view)), view);
  const live = { ...view, range: "24h", from: null, to: null, site: null, path: "", host: null, date: null, slicePath: null, sliceClass: null, minute: null };
  assert.deepEqual(fromAddress(toAddress(live)), live);
});

test("an address cannot bring a range, zone or date that does not exist", () => {
  const view = fromAddress("?range=toString&zone=Mars/Olympus&date=today&from=2020-01-02T00:00:00Z&to=2020-01-01T00:00:00Z&slice_class=9");
  assert.deepEqual([view.range, view.date, view.from, view.sliceClass], [null, null, null, null]);
  assert.ok(zone.known(view.zone));
});

test("an archive begins with its newest days, a live store with its last day or hour", () => {
  const now = at("2026-11-20T10:30:20Z");
  const old = { oldest: at("2015-05-17T00:00:00Z"), first: at("2015-05-17T10:00:00Z"), newest: at("2015-05-20T21:05:59Z") };
  const first = firstRange(old, now, "UTC");
  assert.deepEqual(first, { range: "custom", from: at("2015-05-17T00:00:00Z"), to: at("2015-05-21T00:00:00Z") });
  assert.equal(firstRange({ ...old, first: now - 9 * DAY, newest: now - 5000 }, now, "UTC").range, "24h");
  assert.equal(firstRange({ ...old, first: now - HOUR, newest: now - 5000 }, now, "UTC").range, "1h");
});

test("a range is what was chosen, in whole minutes, and goes on while it is live", () => {
  const now = at("2026-11-20T10:30:20Z");
  const data = { oldest: at("2015-05-17T00:00:00Z"), first: at("2015-05-17T10:00:00Z"), newest: at("2015-05-20T21:05:59Z") };
  const range = resolve({ range: "all", from: null, to: null, zone: "UTC" }, data, now);
  assert.deepEqual([range.from, range.to, range.open], [at("2015-05-17T00:00:00Z"), at("2015-05-21T00:00:00Z"), false]);
  const chosen = resolve({ range: "custom", from: at("2015-05-20T10:00:30Z"), to: at("2015-05-20T14:00:30Z"), zone: "UTC" }, data, now);
  assert.deepEqual([chosen.from, chosen.to, chosen.open], [at("2015-05-20T10:00:00Z"), at("2015-05-20T14:01:00Z"), false]);
  const live = resolve({ range: "1h", zone: "UTC" }, { ...data, newest: now - 1000 }, now);
  assert.deepEqual([live.from, live.to, live.open], [at("2026-11-20T09:31:00Z"), at("2026-11-20T10:31:00Z"), true]);
});

test("charts cover all of any range with a bounded number of bars", () => {
  const of = (length) => {
    const { minute, hour, day } = steps({ from: 0, to: length });
    return [minute, hour, day].map((step) => step?.id ?? null);
  };
  assert.deepEqual(of(4 * HOUR), ["1m", "1h", null]);
  assert.deepEqual(of(DAY), ["5m", "1h", null]);
  assert.deepEqual(of(7 * DAY), ["30m", "1h", "1d"]);
  assert.deepEqual(of(30 * DAY), [null, "3h", "1d"]);
  assert.deepEqual(of(3 * 365 * DAY), [null, null, "1mo"]);
  for (let i = 0; i < 400; i += 1) {
    const length = Math.ceil(10 ** (random() * 7.8)) * MINUTE; // a minute to 120 years
    const from = Math.floor((random() * 30 * 365 * DAY) / MINUTE) * MINUTE;
    const range = { from, to: from + length };
    const found = steps(range);
    assert.ok(found.minute || found.hour || found.day, `${length}`);
    for (const step of Object.values(found).filter(Boolean)) {
      for (const name of ["UTC", "America/New_York", "Asia/Kolkata"]) {
        const list = zone.starts(range.from, range.to, step, name, 5000);
        assert.ok(list.length >= 1 && list.length <= BARS_MAX + 1, `${length / HOUR} hours by ${step.name}: ${list.length} bars`);
        assert.ok(list[0] <= range.from && zone.next(list.at(-1), step, name) >= range.to);
      }
    }
  }
});

test("where retention has taken the minutes, the range is cut at hours, and said to be", () => {
  const now = at("2026-11-20T10:30:20Z");
  const levels = { minutely: at("2026-11-13T00:00:00Z"), hourly: null, daily: null, monthly: null, yearly: null };
  const data = { oldest: 0, first: 0, newest: now, levels };
  const of = (from, to) => resolve({ range: "custom", from: at(from), to: at(to), zone: "UTC" }, data, now);
  const fresh = of("2026-11-14T10:07:00Z", "2026-11-14T14:03:00Z");
  assert.deepEqual([fresh.finest, fresh.from], ["minutely", at("2026-11-14T10:07:00Z")]);
  const old = of("2026-11-01T10:07:00Z", "2026-11-01T14:03:00Z");
  assert.deepEqual([old.finest, old.from, old.to], ["hourly", at("2026-11-01T10:00:00Z"), at("2026-11-01T15:00:00Z")]);
  const found = steps(old);
  assert.deepEqual([found.minute, found.hour.id, found.fit.id], [null, "1h", "1h"]);
  assert.deepEqual(steps({ ...old, to: old.from + HOUR }).hour.id, "1h");
  const stream = ask.describe({ name: "access", kind: "access", rollups: ["stats", "traffic"] });
  const scope = { stream, zone: "Asia/Kolkata", site: null, path: null, utcDays: true, levels };
  const sql = ask.board(scope, old, found);
  assert.ok(sql.includes('"hourly"') && !sql.includes('"minutely"'), sql);
  // A rollup of two levels is asked for nothing else.
  const two = ask.board({ ...scope, zone: "UTC", levels: { minutely: null, daily: null } }, { from: 0, to: 400 * DAY + HOUR, finest: "minutely" }, steps({ from: 0, to: 400 * DAY + HOUR }));
  assert.ok(two.includes('"daily"') && two.includes('"minutely"') && !/"(hourly|monthly|yearly)"/.test(two), two);
});

test("raw events answer a range that a rollup has not counted all of", () => {
  const stream = ask.describe({ name: "access", kind: "access", rollups: ["stats", "traffic"] });
  const range = { from: 0, to: DAY, open: false, finest: "minutely" };
  const of = (completeFrom) => ask.board({ stream: ask.counting(stream, completeFrom, range.from), zone: "UTC", site: null, path: null, utcDays: true }, range, steps(range));
  for (const whole of [null, 0, -DAY]) assert.ok(!of(whole).includes('FROM "access"'), of(whole));
  assert.ok(!of(1).includes('"traffic"') && of(1).includes('FROM "access"'), of(1));
});

test("every statement of the board covers exactly the range", () => {
  const stream = ask.describe({ name: "access", kind: "access", rollups: ["stats", "traffic"] });
  for (let i = 0; i < 300; i += 1) {
    const from = at("2024-01-01T00:00:00Z") + Math.floor(random() * 1e6) * MINUTE;
    const range = { from, to: from + MINUTE * Math.ceil(10 ** (random() * 6.2)), open: random() < 0.5 };
    const scope = { stream, zone: ["UTC", "Europe/Berlin", "Asia/Kolkata"][i % 3], site: null, path: random() < 0.5 ? null : "/a", utcDays: random() < 0.8 };
    for (const arm of ask.board(scope, range, steps(range)).split(/(?=SELECT '\w+' AS k)/)) {
      const pieces = [...arm.matchAll(/(?:bucket|time) >= TIMESTAMP '([^']+)' AND (?:bucket|time) < TIMESTAMP '([^']+)'/g)].map(([, a, b]) => [at(a), at(b)]);
      assert.equal(pieces[0][0], range.from, arm);
      assert.equal(pieces.at(-1)[1], range.to, arm);
      pieces.forEach(([a, b], n) => assert.ok(a < b && (n === 0 || a === pieces[n - 1][1]), arm));
    }
  }
});

test("rows of one time are paged by the order in which they came", () => {
  const stream = ask.describe({ name: "access", kind: "access" });
  const asked = { host: "h", from: 0, to: DAY, path: null, statusClass: null };
  const first = ask.slicePage(stream, asked, 90);
  assert.match(first, / AND _seq <= 90 ORDER BY time, _seq LIMIT 1000$/);
  const second = ask.slicePage(stream, asked, 90, { time: "1970-01-01T00:00:01.000002Z", _seq: 41 });
  assert.match(second, /AND time >= TIMESTAMP '1970-01-01T00:00:01.000002Z' AND \(time > TIMESTAMP '1970-01-01T00:00:01.000002Z' OR _seq > 41\) ORDER BY time, _seq LIMIT/);
  const scope = { stream, zone: "UTC", site: null, path: null, utcDays: true };
  assert.match(ask.lastEvents(scope, 0, 50), /ORDER BY time DESC, _seq DESC LIMIT 50$/);
});

test("a slice is one host on one date, or one minute of all", () => {
  const view = fromAddress("?zone=UTC");
  const usual = { host: "h", date: "2015-05-20" };
  const day = { from: at("2015-05-20T00:00:00Z"), to: at("2015-05-21T00:00:00Z"), path: null, statusClass: null };
  assert.deepEqual(sliceOf(view, "UTC", usual), { host: "h", ...day });
  assert.deepEqual(sliceOf({ ...view, host: "x", date: "2015-05-20" }, "UTC", { host: null, date: null }), { host: "x", ...day });
  assert.equal(sliceOf(view, "UTC", { host: null, date: "2015-05-20" }), null);
  const minute = at("2015-05-20T12:03:00Z");
  assert.deepEqual(sliceOf({ ...view, minute }, "UTC", usual), { host: null, from: minute, to: minute + MINUTE, path: null, statusClass: null });
  const summary = { n: 3, first: "2015-05-20T10:00:00Z", last: "2015-05-20T11:00:00Z", bytes: 2048, s2: 2, s3: 0, s4: 0, s5: 1, other: 0 };
  assert.equal(summaryText(summary, "UTC"), "3 events: first 10:00:00, last 11:00:00 · 2xx 2, 5xx 1 · 2 KiB");
});

test("a range without any data of a stream is known", () => {
  const data = { oldest: 0, first: HOUR, newest: 2 * HOUR };
  assert.ok(isOutside({ from: 3 * HOUR, to: DAY }, data));
  assert.ok(isOutside({ from: 0, to: HOUR }, data));
  assert.ok(!isOutside({ from: 2 * HOUR, to: DAY }, data));
});

test("axes end on round numbers that hold every value", () => {
  for (let i = 0; i < 300; i += 1) {
    const max = Math.ceil(10 ** (random() * 9));
    const { top, marks } = scale(max);
    assert.ok(top >= max && marks.length >= 2 && marks.length <= 7, `${max}: ${marks}`);
    const axis = logScale(max / 50, max);
    assert.ok(axis.bottom <= Math.max(1, max / 50) && axis.top >= max && axis.marks.length <= 6, `${max}: ${axis.marks}`);
  }
});

test("numbers are short and do not lie about what is small", () => {
  assert.deepEqual([0, 999, 1000, 4260, 999_950, 1_440_000].map(compact), ["0", "999", "1k", "4.26k", "1M", "1.44M"]);
  assert.deepEqual([0, 2326, 1024 ** 3, null].map(bytes), ["0 B", "2.27 KiB", "1 GiB", "–"]);
  assert.deepEqual([percent(0, 10), percent(1, 1_000_000), percent(1, 4), percent(1, 0)], ["0 %", "< 0.01 %", "25 %", "–"]);
});

let failed = 0;
for (const [name, run] of tests) {
  try {
    run();
  } catch (error) {
    failed += 1;
    console.error(`FAILED ${name}\n${error.stack}`);
  }
}
console.log(`${tests.length - failed} of ${tests.length} passed`);
process.exitCode = failed > 0 ? 1 : 0;
