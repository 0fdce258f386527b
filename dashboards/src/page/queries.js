// The SQL behind every panel: pure functions from a scope and a range to one statement.
//
// A scope is `{stream, zone, site, path, utcDays}`: `stream` as `describe` gives it, `site` and
// `path` null for all of them and "" for those without one. Where a rollup answers, it is asked;
// raw events are read only for what no rollup holds (the statuses of one page, a few hosts).
// Every range is covered exactly: whole months, days and hours by the coarse levels, the ends by
// the finer ones. Column names in answers: `t` is a bucket's start.

import { is, instant, name, text } from "./sql.js";
import { DAY, HOUR, STEPS, ceil, floor, offset } from "./zone.js";

/// What the page needs to know of a stream of `/api/v1/streams`.
export function describe(entry) {
  const rollups = (entry.rollups ?? ["stats", "traffic"]).map((r) => (typeof r === "string" ? r : r.name));
  const find = (kind) => rollups.find((r) => r === kind) ?? rollups.find((r) => r.endsWith(`_${kind}`)) ?? null;
  return { name: entry.name, access: (entry.kind ?? "access") === "access", stats: find("stats"), traffic: find("traffic") };
}

const LEVELS = [
  { table: "monthly", step: STEPS["1mo"] },
  { table: "daily", step: STEPS["1d"] },
  { table: "hourly", step: STEPS["1h"] },
  { table: "minutely", step: STEPS["1m"] },
];

/// The levels that together hold `[from, to)` and nothing else: `[table, from, to]`, in order.
export function cover(from, to, levels) {
  if (from >= to || levels.length === 0) return [];
  const [{ table, step }, ...finer] = levels;
  if (finer.length === 0) return [[table, floor(from, step, "UTC"), ceil(to, step, "UTC")]];
  const a = ceil(from, step, "UTC");
  const b = floor(to, step, "UTC");
  if (a >= b) return cover(from, to, finer);
  return [...cover(from, a, finer), [table, a, b], ...cover(b, to, finer)];
}

function within(column, from, to) {
  return `${column} >= ${instant(from)} AND ${column} < ${instant(to)}`;
}

/// The scope's site and path as conditions, for a table that has the columns `has`.
function keys(scope, has) {
  const found = [];
  if (scope.site !== null && has.includes("site")) found.push(is("site", scope.site));
  if (scope.path !== null && has.includes("path")) found.push(is("path", scope.path));
  return found.map((condition) => ` AND ${condition}`).join("");
}

function rollupKeys(scope, rollup) {
  if (!scope.stream.access) return "";
  return keys(scope, rollup === scope.stream.stats ? ["site", "path"] : ["site"]);
}

function rawKeys(scope) {
  return scope.stream.access ? keys(scope, ["site", "path"]) : "";
}

/// The rollup that counts what the scope asks for; null where only raw events can tell.
function counted(scope) {
  return scope.path !== null ? scope.stream.stats : scope.stream.traffic;
}

/// `columns` of a rollup over a range, from as few rows as the levels allow.
function covered(scope, rollup, range, columns, finest = "minutely") {
  const last = LEVELS.findIndex((level) => level.table === finest);
  const first = scope.utcDays ? 0 : 2;
  const to = range.open ? ceil(range.to, scope.utcDays ? STEPS["1d"] : STEPS["1h"], "UTC") : range.to;
  const pieces = cover(range.from, to, LEVELS.slice(first, last + 1));
  return pieces
    .map(([table, a, b]) => `SELECT ${columns} FROM ${name(`${rollup}.${table}`)} WHERE ${within("bucket", a, b)}${rollupKeys(scope, rollup)}`)
    .join(" UNION ALL ");
}

/// Which level answers buckets of this step, and the expression for a bucket's start.
function bucketed(scope, step, range, finest = "minutely") {
  if (step.unit === "hour") return { level: "hourly", t: "bucket" };
  if (step.unit === "minute") {
    return { level: "minutely", t: step.id === "1m" ? "bucket" : `time_bucket(${text(step.width)}, bucket)` };
  }
  if (scope.zone === "UTC" && scope.utcDays) return { level: step.unit === "day" ? "daily" : "monthly", t: "bucket" };
  const whole = offset(range.from, scope.zone) % HOUR === 0 && offset(range.to, scope.zone) % HOUR === 0;
  return {
    level: whole || finest === "hourly" ? "hourly" : "minutely",
    t: `time_bucket(${text(step.width)}, bucket, ${text(scope.zone)})`,
  };
}

function rawBucket(scope, step) {
  const zone = step.fixed ? "" : `, ${text(scope.zone)}`;
  return `time_bucket(${text(step.width)}, time${zone})`;
}

function grouped(scope, rollup, step, range, columns, finest) {
  const { level, t } = bucketed(scope, step, range, finest);
  return `SELECT ${t} AS t, ${columns} FROM ${name(`${rollup}.${level}`)} WHERE ${within("bucket", range.from, range.to)}${rollupKeys(scope, rollup)} GROUP BY 1`;
}

function rawGrouped(scope, step, range, columns) {
  return `SELECT ${rawBucket(scope, step)} AS t, ${columns} FROM ${name(scope.stream.name)} WHERE ${within("time", range.from, range.to)}${rawKeys(scope)} GROUP BY 1`;
}

/// → t, hits
export function hits(scope, step, range) {
  const rollup = counted(scope);
  const body = rollup ? grouped(scope, rollup, step, range, "sum(hits) AS hits") : rawGrouped(scope, step, range, "count(*) AS hits");
  return `${body} ORDER BY t`;
}

const ERRORS_RAW = "count(*) FILTER (WHERE status >= 500) AS server, count(*) FILTER (WHERE status >= 400 AND status < 500) AS client";

/// → hits, and for access logs bytes; with `server` and `client` errors where a rollup has them.
export function totals(scope, range) {
  const rollup = counted(scope);
  if (!rollup) {
    const more = scope.stream.access ? `, sum(response_size) AS bytes, ${ERRORS_RAW}` : "";
    return `SELECT count(*) AS hits${more} FROM ${name(scope.stream.name)} WHERE ${within("time", range.from, range.to)}${rawKeys(scope)}`;
  }
  if (!scope.stream.access) return `SELECT sum(hits) AS hits FROM (${covered(scope, rollup, range, "hits")}) AS c`;
  if (scope.path !== null) return `SELECT sum(hits) AS hits, sum(bytes) AS bytes FROM (${covered(scope, rollup, range, "hits, bytes")}) AS c`;
  return `SELECT sum(hits) AS hits, sum(bytes) AS bytes, sum(hits) FILTER (WHERE status >= 500) AS server, sum(hits) FILTER (WHERE status >= 400 AND status < 500) AS client FROM (${covered(scope, rollup, range, "status, hits, bytes")}) AS c`;
}

/// → server, client: the errors of one page, which no rollup holds; null where `totals` has them.
export function pageErrors(scope, range) {
  if (scope.path === null || !counted(scope)) return null;
  return `SELECT ${ERRORS_RAW} FROM ${name(scope.stream.name)} WHERE ${within("time", range.from, range.to)}${rawKeys(scope)}`;
}

/// → n: distinct hosts. From merged states where the range is made of hours, else from raw events.
export function visitors(scope, range) {
  const rollup = counted(scope);
  const hours = range.from % HOUR === 0 && (range.open || range.to % HOUR === 0) && range.to - range.from > 2 * HOUR;
  if (rollup && hours) {
    return `SELECT distinct_count(v) AS n FROM (SELECT distinct_merge(visitors_state) AS v FROM (${covered(scope, rollup, range, "visitors_state", "hourly")}) AS c) AS m`;
  }
  return `SELECT count(DISTINCT host) AS n FROM ${name(scope.stream.name)} WHERE ${within("time", range.from, range.to)}${rawKeys(scope)}`;
}

/// → t, n: distinct hosts per hour or day.
export function visitorSeries(scope, step, range) {
  const rollup = counted(scope);
  if (!rollup) return `${rawGrouped(scope, step, range, "count(DISTINCT host) AS n")} ORDER BY t`;
  const merged = grouped(scope, rollup, step, range, "distinct_merge(visitors_state) AS v", "hourly");
  return `SELECT t, distinct_count(v) AS n FROM (${merged}) AS m ORDER BY t`;
}

/// → path, n, b: the pages with the most hits, of the scope's site (whatever its path).
export function topPaths(scope, range, limit) {
  const all = { ...scope, path: null };
  const source = scope.stream.stats
    ? `SELECT path, sum(hits) AS n, sum(bytes) AS b FROM (${covered(all, scope.stream.stats, range, "path, hits, bytes")}) AS c`
    : `SELECT path, count(*) AS n, sum(response_size) AS b FROM ${name(scope.stream.name)} WHERE ${within("time", range.from, range.to)}${rawKeys(all)}`;
  return `${source} GROUP BY path ORDER BY n DESC, path LIMIT ${limit}`;
}

const CLASSES = [2, 3, 4, 5];

/// → t, s2, s3, s4, s5, other: events by class of status.
export function statuses(scope, step, range) {
  const rollup = scope.path === null ? scope.stream.traffic : null;
  const measure = rollup ? "sum(hits)" : "count(*)";
  const columns = CLASSES.map((c) => `${measure} FILTER (WHERE status >= ${c}00 AND status < ${c + 1}00) AS s${c}`);
  columns.push(`${measure} FILTER (WHERE status IS NULL OR status < 200 OR status >= 600) AS other`);
  const list = columns.join(", ");
  return `${rollup ? grouped(scope, rollup, step, range, list) : rawGrouped(scope, step, range, list)} ORDER BY t`;
}

/// The finest step whose response sizes a rollup holds: `stats` keeps them from the hour.
export function sizeStep(scope, step) {
  return scope.path !== null && step.unit === "minute" ? STEPS["1h"] : step;
}

/// → t, p50, p99 of response sizes: histograms merged over all keys, then read.
export function sizes(scope, step, range) {
  const rollup = counted(scope);
  if (!rollup) return null;
  const merged = grouped(scope, rollup, step, range, "hist_merge(size) AS s", scope.path !== null ? "hourly" : "minutely");
  return `SELECT t, hist_quantile(s, 0.5) AS p50, hist_quantile(s, 0.99) AS p99 FROM (${merged}) AS m ORDER BY t`;
}

/// → oldest, newest: the first and last bucket of a stream with events, as instants of days.
export function bounds(stream) {
  if (stream.traffic) return `SELECT min(bucket) AS oldest, max(bucket) AS newest FROM ${name(`${stream.traffic}.daily`)}`;
  return `SELECT min(time) AS oldest, max(time) AS newest FROM ${name(stream.name)}`;
}

/// → newest: the last minute with events, not older than `since`; null for a stream without rollup.
export function newestMinute(stream, since) {
  if (!stream.traffic) return null;
  return `SELECT max(bucket) AS newest FROM ${name(`${stream.traffic}.minutely`)} WHERE bucket >= ${instant(since)}`;
}

/// → oldest: the first hour with events, not older than `since`.
export function firstHour(stream, since) {
  return `SELECT min(bucket) AS oldest FROM ${name(`${stream.traffic}.hourly`)} WHERE bucket >= ${instant(since)} AND bucket < ${instant(since + 2 * DAY)}`;
}

/// → newest: the time of the last event, not older than `since`.
export function newestEvent(stream, since) {
  return `SELECT max(time) AS newest FROM ${name(stream.name)} WHERE time >= ${instant(since)}`;
}

/// → site: every site that was ever counted.
export function sites(stream) {
  return `SELECT DISTINCT site FROM ${name(`${stream.traffic}.daily`)} ORDER BY site LIMIT 500`;
}

/// → host, time of the newest event at or after `since`: what the slice shows before one asks.
export function newestHost(scope, since) {
  return `SELECT host, time FROM ${name(scope.stream.name)} WHERE time >= ${instant(since)} AND host IS NOT NULL${rawKeys(scope)} ORDER BY time DESC LIMIT 1`;
}

/// The most rows that the slice fetches.
export const SLICE_MAX = 1000;

/// The events of one host in `[from, to)`, oldest first, perhaps of one page or class of status.
export function slice(stream, { host, from, to, path, statusClass }) {
  const more = [];
  if (path !== null) more.push(` AND ${is("path", path)}`);
  if (statusClass !== null) more.push(` AND status >= ${Number(statusClass)}00 AND status < ${Number(statusClass) + 1}00`);
  return `SELECT time, method, path, query, status, response_size, referrer, user_agent FROM ${name(stream.name)} WHERE host = ${text(host)} AND ${within("time", from, to)}${more.join("")} ORDER BY time LIMIT ${SLICE_MAX}`;
}

/// The last stored events not older than `since`, newest first: what the tail begins with.
export function lastEvents(scope, since, limit) {
  const columns = scope.stream.access ? "_id, time, host, site, method, path, status, response_size, user_agent, request" : "*";
  return `SELECT ${columns} FROM ${name(scope.stream.name)} WHERE time >= ${instant(since)}${rawKeys(scope)} ORDER BY time DESC LIMIT ${limit}`;
}

