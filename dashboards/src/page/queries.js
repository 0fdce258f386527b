// The SQL behind every panel: pure functions from a scope and a range to one statement.
//
// A scope is `{stream, zone, site, path, utcDays}`: `stream` as `describe` gives it, `site` and
// `path` null for all of them and "" for those without one. Where a rollup answers, it is asked;
// raw events are read only for what no rollup holds (the statuses of one page, a few hosts).
// Every range is covered exactly: whole months, days and hours by the coarse levels, the ends by
// the finer ones. Column names in answers: `t` is a bucket's start.

import { exact, is, instant, name, text } from "./sql.js";
import { DAY, HOUR, STEPS, ceil, floor, offset, starts } from "./zone.js";

/// What the page needs to know of a stream of `/api/v1/streams`.
export function describe(entry) {
  const rollups = (entry.rollups ?? ["stats", "traffic"]).map((r) => (typeof r === "string" ? r : r.name));
  const find = (kind) => rollups.find((r) => r === kind) ?? rollups.find((r) => r.endsWith(`_${kind}`)) ?? null;
  return { name: entry.name, access: (entry.kind ?? "access") === "access", stats: find("stats"), traffic: find("traffic") };
}

const LEVELS = [
  { table: "yearly", step: STEPS["1y"] },
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

/// `columns` of a rollup over a range, from as few rows as the levels from `coarsest` to `finest`
/// allow: those that the rollups have and that still hold the range.
function covered(scope, rollup, range, columns, { coarsest = scope.utcDays ? "yearly" : "hourly", finest = "minutely" } = {}) {
  const at = (table) => LEVELS.findIndex((level) => level.table === table);
  const last = Math.min(at(finest), at(range.finest ?? "minutely"));
  const first = Math.min(at(coarsest), last);
  const levels = LEVELS.slice(first, last + 1).filter(({ table }, n) => n === last - first || !scope.levels || Object.hasOwn(scope.levels, table));
  return cover(range.from, range.to, levels)
    .map(([table, a, b]) => `SELECT ${columns} FROM ${name(`${rollup}.${table}`)} WHERE ${within("bucket", a, b)}${rollupKeys(scope, rollup)}`)
    .join(" UNION ALL ");
}

/// The coarsest level whose buckets each lie within one bucket of the step.
function coarsestWithin(scope, step, range) {
  if (step.unit === "minute") return "minutely";
  if (step.unit === "hour") return "hourly";
  if (scope.zone === "UTC" && scope.utcDays) return { day: "daily", month: "monthly", year: "yearly" }[step.unit];
  const whole = [...starts(range.from, range.to, step, scope.zone), range.to].every((at) => offset(at, scope.zone) % HOUR === 0);
  return whole ? "hourly" : "minutely";
}

function bucketOf(scope, step, column) {
  const zone = step.fixed || scope.zone === "UTC" ? "" : `, ${text(scope.zone)}`;
  return `time_bucket(${text(step.width)}, ${column}${zone})`;
}

/// Measures of a rollup by bucket of the step, over exactly the range.
function grouped(scope, rollup, step, range, columns, measures, finest = "minutely") {
  const coarsest = finest === "hourly" && step.unit !== "minute" ? "hourly" : coarsestWithin(scope, step, range);
  return `SELECT ${bucketOf(scope, step, "bucket")} AS t, ${measures} FROM (${covered(scope, rollup, range, `bucket, ${columns}`, { coarsest, finest })}) AS c GROUP BY 1`;
}

function rawWhere(scope, range) {
  return `${within("time", range.from, range.to)}${rawKeys(scope)}`;
}

function rawGrouped(scope, step, range, measures) {
  return `SELECT ${bucketOf(scope, step, "time")} AS t, ${measures} FROM ${name(scope.stream.name)} WHERE ${rawWhere(scope, range)} GROUP BY 1`;
}

/// Bytes of raw events; the sum of 64-bit sizes may need more than 64 bits.
const EXACT_BYTES = "sum(CAST(response_size AS DECIMAL(38, 0)))";

const CLASSES = [2, 3, 4, 5];
const NO_CLASSES = "0 AS s2, 0 AS s3, 0 AS s4, 0 AS s5, 0 AS other";

function classes(measure) {
  const columns = CLASSES.map((c) => `${measure} FILTER (WHERE status >= ${c}00 AND status < ${c + 1}00) AS s${c}`);
  columns.push(`${measure} FILTER (WHERE status IS NULL OR status < 200 OR status >= 600) AS other`);
  return columns.join(", ");
}

/// → k, t, hits, bytes, s2, s3, s4, s5, other: what the totals, the charts of hits and the classes
/// of status show, in one statement and so of one snapshot, since numbers side by side must agree.
/// `k` says what a row belongs to: a chart of hits by its name, "status" for the classes, "all" for
/// the totals. `steps` are those of `state.js`; a page's own classes come from raw events, as no
/// rollup holds them.
export function board(scope, range, steps) {
  const rollup = counted(scope);
  const { access } = scope.stream;
  const arms = ["minute", "hour", "day"].filter((kind) => steps[kind]).map((kind) => {
    const body = rollup
      ? grouped(scope, rollup, steps[kind], range, "hits", "sum(hits) AS hits")
      : rawGrouped(scope, steps[kind], range, "count(*) AS hits");
    return `SELECT ${text(kind)} AS k, t, hits, 0 AS bytes, ${NO_CLASSES} FROM (${body}) AS ${kind}s`;
  });
  const measures = access ? "sum(hits) AS hits, sum(bytes_exact) AS bytes" : "sum(hits) AS hits, 0 AS bytes";
  const all = rollup
    ? `SELECT 'all' AS k, max(bucket) AS t, ${measures}, ${NO_CLASSES} FROM (${covered(scope, rollup, range, access ? "bucket, hits, bytes_exact" : "bucket, hits")}) AS c`
    : `SELECT 'all' AS k, max(time) AS t, count(*) AS hits, ${access ? EXACT_BYTES : "0"} AS bytes, ${NO_CLASSES} FROM ${name(scope.stream.name)} WHERE ${rawWhere(scope, range)}`;
  arms.push(all);
  if (access) {
    const body = rollup && scope.path === null
      ? grouped(scope, rollup, steps.fit, range, "status, hits", classes("sum(hits)"))
      : rawGrouped(scope, steps.fit, range, classes("count(*)"));
    arms.push(`SELECT 'status' AS k, t, 0 AS hits, 0 AS bytes, s2, s3, s4, s5, other FROM (${body}) AS statuses`);
  }
  return arms.join(" UNION ALL ");
}

/// Returns whether a level of hours holds exactly this range in buckets of this step.
function inHours(range, step) {
  return step.unit !== "minute" && range.from % HOUR === 0 && (range.open || range.to % HOUR === 0);
}

/// → n: distinct hosts. From merged states where the range is made of hours, else from raw events.
export function visitors(scope, range) {
  const rollup = counted(scope);
  if (rollup && inHours(range, STEPS["1h"]) && range.to - range.from > 2 * HOUR) {
    return `SELECT distinct_count(v) AS n FROM (SELECT distinct_merge(visitors_state) AS v FROM (${covered(scope, rollup, range, "visitors_state", { finest: "hourly" })}) AS c) AS m`;
  }
  return `SELECT count(DISTINCT host) AS n FROM ${name(scope.stream.name)} WHERE ${rawWhere(scope, range)}`;
}

/// → t, n: distinct hosts by bucket.
export function visitorSeries(scope, step, range) {
  const rollup = counted(scope);
  if (!rollup || !inHours(range, step) || coarsestWithin(scope, step, range) === "minutely") {
    return `${rawGrouped(scope, step, range, "count(DISTINCT host) AS n")} ORDER BY t`;
  }
  const merged = grouped(scope, rollup, step, range, "visitors_state", "distinct_merge(visitors_state) AS v", "hourly");
  return `SELECT t, distinct_count(v) AS n FROM (${merged}) AS m ORDER BY t`;
}

/// → path, n, b, total: the pages with the most hits, of the scope's site (whatever its path),
/// beside the hits of all pages.
export function topPaths(scope, range, limit) {
  const all = { ...scope, path: null };
  const source = scope.stream.stats
    ? `SELECT path, sum(hits) AS n, sum(bytes_exact) AS b FROM (${covered(all, scope.stream.stats, range, "path, hits, bytes_exact")}) AS c`
    : `SELECT path, count(*) AS n, ${EXACT_BYTES} AS b FROM ${name(scope.stream.name)} WHERE ${rawWhere(all, range)}`;
  return `SELECT path, n, b, sum(n) OVER () AS total FROM (${source} GROUP BY path) AS p ORDER BY n DESC, path LIMIT ${limit}`;
}

/// → t, p50, p99 of response sizes: histograms merged over all keys, then read. `stats` keeps them
/// from the hour, so a page's minutes, and ranges that are not made of hours, come from its raw
/// events.
export function sizes(scope, step, range) {
  const rollup = counted(scope);
  if (!rollup || (scope.path !== null && !inHours(range, step))) {
    const measures = "approx_percentile_cont(response_size, 0.5) AS p50, approx_percentile_cont(response_size, 0.99) AS p99";
    return `${rawGrouped(scope, step, range, measures)} ORDER BY t`;
  }
  const merged = grouped(scope, rollup, step, range, "size", "hist_merge(size) AS s", scope.path !== null ? "hourly" : "minutely");
  return `SELECT t, hist_quantile(s, 0.5) AS p50, hist_quantile(s, 0.99) AS p99 FROM (${merged}) AS m ORDER BY t`;
}

/// The stream as a range from `from` on is to be asked: without its rollups where those are not
/// complete, as one that was added later and still counts what came before is not. Raw events
/// answer then.
export function counting(stream, completeFrom, from) {
  return completeFrom === null || from >= completeFrom ? stream : { ...stream, stats: null, traffic: null };
}

/// → level, floor, complete_from: the levels that all rollups of a stream's panels have, since when
/// retention leaves each, and since when the rollups count all events (null: ever).
export function levels(stream) {
  const rollups = [stream.stats, stream.traffic].filter(Boolean);
  if (rollups.length === 0) return null;
  return `SELECT level, max(floor) AS floor, max(complete_from) AS complete_from FROM system.rollups WHERE name IN (${rollups.map(text).join(", ")}) GROUP BY level HAVING count(*) = ${rollups.length}`;
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
  return `SELECT host, time FROM ${name(scope.stream.name)} WHERE time >= ${instant(since)} AND host IS NOT NULL${rawKeys(scope)} ORDER BY time DESC, _seq DESC LIMIT 1`;
}

/// The rows that one page of the slice has.
export const SLICE_PAGE = 1000;

function sliceWhere({ host, from, to, path, statusClass }) {
  const more = [within("time", from, to)];
  if (host !== null) more.push(`host = ${text(host)}`);
  if (path !== null) more.push(is("path", path));
  if (statusClass !== null) more.push(`status >= ${Number(statusClass)}00 AND status < ${Number(statusClass) + 1}00`);
  return more.join(" AND ");
}

/// → n, first, last, bytes, s2, s3, s4, s5, other, cut: a slice in one row. `cut` is the sequence
/// of its last event to arrive: pages up to it are pages of one snapshot.
export function sliceSummary(stream, slice) {
  return `SELECT count(*) AS n, min(time) AS first, max(time) AS last, ${EXACT_BYTES} AS bytes, ${classes("count(*)")}, max(_seq) AS cut FROM ${name(stream.name)} WHERE ${sliceWhere(slice)}`;
}

/// The events of a slice up to `cut`, a page after the row `after`, by time and then as they
/// arrived: within one second a redirect stands before its answer.
export function slicePage(stream, slice, cut, after = null) {
  const later = after === null ? "" : ` AND time >= ${exact(after.time)} AND (time > ${exact(after.time)} OR _seq > ${Number(after._seq)})`;
  return `SELECT _seq, time, host, method, path, query, request, status, response_size, referrer, user_agent FROM ${name(stream.name)} WHERE ${sliceWhere(slice)} AND _seq <= ${Number(cut)}${later} ORDER BY time, _seq LIMIT ${SLICE_PAGE}`;
}

/// The last stored events not older than `since`, newest first: what the tail begins with.
export function lastEvents(scope, since, limit) {
  const columns = scope.stream.access ? "_id, time, host, site, method, path, status, response_size, user_agent, request" : "*";
  return `SELECT ${columns} FROM ${name(scope.stream.name)} WHERE time >= ${instant(since)}${rawKeys(scope)} ORDER BY time DESC, _seq DESC LIMIT ${limit}`;
}
