// The SQL behind every panel: pure functions from a scope and a range to one statement.
//
// A scope is `{stream, zone, site, path, utcDays}`: `stream` as `describe` gives it, `site` and
// `path` null for all of them and "" for those without one. Where a rollup answers, it is asked;
// raw events are read only for what no rollup holds (the statuses of one page, a few hosts).
// Every range is covered exactly: whole months, days and hours by the coarse levels, the ends by
// the finer ones. Column names in answers: `t` is a bucket's start.

import { exact, fill, is, instant, name, text } from "./sql.js";
import { STATEMENTS } from "./statements.js";
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

/// Measures as aggregates over cells of a rollup, and over raw events. The sum of 64-bit sizes may
/// need more than 64 bits.
const OF_CELLS = {
  hits: "sum(hits)", bytes: "sum(bytes_exact)", visitors: "distinct_count(distinct_merge(visitors_state))",
  p50: "hist_quantile(hist_merge(size), 0.5)", p90: "hist_quantile(hist_merge(size), 0.9)", p99: "hist_quantile(hist_merge(size), 0.99)",
};
const OF_EVENTS = {
  hits: "count(*)", bytes: "sum(CAST(response_size AS DECIMAL(38, 0)))", visitors: "count(DISTINCT host)",
  p50: "approx_percentile_cont(response_size, 0.5)", p90: "approx_percentile_cont(response_size, 0.9)", p99: "approx_percentile_cont(response_size, 0.99)",
};

/// The measures that a stream has: one of other events than an access log has no sizes.
function measures(scope, all) {
  return scope.stream.access ? all : { ...all, bytes: "0" };
}

/// A template over cells of a rollup, over exactly the range; by bucket where there is a step.
function ofCells(statement, scope, rollup, range, step = null, finest = "minutely") {
  const levels = !step ? { finest } : { finest, coarsest: finest === "hourly" && step.unit !== "minute" ? "hourly" : coarsestWithin(scope, step, range) };
  const has = (column) => scope.stream.access || column !== "bytes_exact";
  return fill(STATEMENTS[statement], {
    ...measures(scope, OF_CELLS),
    t: "t",
    bucket: step && bucketOf(scope, step, "bucket"),
    events: (columns) => `(${covered(scope, rollup, range, columns.filter(has).join(", "), levels)}) AS c`,
  });
}

/// A template over raw events of the range; by bucket where there is a step.
function ofEvents(statement, scope, range, step = null) {
  const raw = `${name(scope.stream.name)} WHERE ${within("time", range.from, range.to)}${rawKeys(scope)}`;
  return fill(STATEMENTS[statement], {
    ...measures(scope, OF_EVENTS),
    t: "t",
    bucket: step && bucketOf(scope, step, "time"),
    events: () => raw,
    raw,
  });
}

const NO_CLASSES = "0 AS s2, 0 AS s3, 0 AS s4, 0 AS s5, 0 AS other";

/// → k, t, hits, bytes, s2, s3, s4, s5, other: what the totals, the charts of hits and the classes
/// of status show, in one statement and so of one snapshot, since numbers side by side must agree.
/// `k` says what a row belongs to: a chart of hits by its name, "status" for the classes, "all" for
/// the totals. `steps` are those of `state.js`; a page's own classes come from raw events, as no
/// rollup holds them.
export function board(scope, range, steps) {
  const rollup = counted(scope);
  const of = (statement, from, step) => (from ? ofCells(statement, scope, from, range, step) : ofEvents(statement, scope, range, step));
  const arms = ["minute", "hour", "day"].filter((kind) => steps[kind])
    .map((kind) => `SELECT ${text(kind)} AS k, t, hits, 0 AS bytes, ${NO_CLASSES} FROM (${of("hits", rollup, steps[kind])}) AS ${kind}s`);
  arms.push(`SELECT 'all' AS k, NULL AS t, hits, bytes, ${NO_CLASSES} FROM (${of("totals", rollup)}) AS totals`);
  if (scope.stream.access) {
    const body = of("classes", scope.path === null ? rollup : null, steps.fit);
    arms.push(`SELECT 'status' AS k, t, 0 AS hits, 0 AS bytes, s2, s3, s4, s5, other FROM (${body}) AS statuses`);
  }
  return arms.join(" UNION ALL ");
}

/// Returns whether a level of hours holds exactly this range in buckets of this step.
function inHours(range, step) {
  return step.unit !== "minute" && range.from % HOUR === 0 && (range.open || range.to % HOUR === 0);
}

/// → visitors: distinct hosts. From merged states where the range is made of hours, else from raw
/// events.
export function visitors(scope, range) {
  const rollup = counted(scope);
  if (rollup && inHours(range, STEPS["1h"]) && range.to - range.from > 2 * HOUR) return ofCells("visitors", scope, rollup, range, null, "hourly");
  return ofEvents("visitors", scope, range);
}

/// → t, visitors: distinct hosts by bucket.
export function visitorSeries(scope, step, range) {
  const rollup = counted(scope);
  const raw = !rollup || !inHours(range, step) || coarsestWithin(scope, step, range) === "minutely";
  return `${raw ? ofEvents("visitors_by_bucket", scope, range, step) : ofCells("visitors_by_bucket", scope, rollup, range, step, "hourly")} ORDER BY t`;
}

/// → path, n, b, share: the pages with the most hits, of the scope's site (whatever its path), and
/// their share of the hits of all pages.
export function topPaths(scope, range) {
  const all = { ...scope, path: null };
  return scope.stream.stats ? ofCells("top_paths", all, scope.stream.stats, range) : ofEvents("top_paths", all, range);
}

/// → t, p50, p90, p99 of response sizes: histograms merged over all keys, then read. `stats` keeps
/// them from the hour, so a page's minutes, and ranges that are not made of hours, come from its
/// raw events.
export function sizes(scope, step, range) {
  const rollup = counted(scope);
  const raw = !rollup || (scope.path !== null && !inHours(range, step));
  return `${raw ? ofEvents("sizes", scope, range, step) : ofCells("sizes", scope, rollup, range, step, scope.path !== null ? "hourly" : "minutely")} ORDER BY t`;
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
  return `SELECT level, max(floor) AS floor, max(complete_from) AS complete_from FROM system.rollups WHERE name IN (${rollups.map(text).join(", ")}) GROUP BY level HAVING count(DISTINCT name) = ${rollups.length}`;
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
  return fill(STATEMENTS.newest, { raw: `${name(stream.name)} WHERE time >= ${instant(since)}` });
}

/// → site: every site that was ever counted.
export function sites(stream) {
  return `SELECT DISTINCT site FROM ${name(`${stream.traffic}.daily`)} ORDER BY site LIMIT 500`;
}

/// → host, time of the newest event at or after `since`: what the slice shows before one asks.
export function newestHost(scope, since) {
  return `SELECT host, time FROM ${name(scope.stream.name)} WHERE time >= ${instant(since)} AND host IS NOT NULL${rawKeys(scope)} ORDER BY time DESC, _seq DESC LIMIT 1`;
}

/// The rows that one page of the slice has, as its template says.
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
  return fill(STATEMENTS.slice_summary, { raw: `${name(stream.name)} WHERE ${sliceWhere(slice)}` });
}

/// The events of a slice up to `cut`, a page after the row `after`, by time and then as they
/// arrived: within one second a redirect stands before its answer.
export function slicePage(stream, slice, cut, after = null) {
  const later = after === null ? "" : ` AND time >= ${exact(after.time)} AND (time > ${exact(after.time)} OR _seq > ${Number(after._seq)})`;
  return fill(STATEMENTS.slice_page, { raw: `${name(stream.name)} WHERE ${sliceWhere(slice)} AND _seq <= ${Number(cut)}${later}` });
}

/// The last stored events not older than `since`, newest first: what the tail begins with.
export function lastEvents(scope, since, limit) {
  const columns = scope.stream.access ? "_id, time, host, site, method, path, status, response_size, user_agent, request" : "*";
  return `SELECT ${columns} FROM ${name(scope.stream.name)} WHERE time >= ${instant(since)}${rawKeys(scope)} ORDER BY time DESC, _seq DESC LIMIT ${limit}`;
}

/// What has come over each protocol since the server started, the latest first.
export function arrivals() {
  return "SELECT producer, stream, stored, quarantined, duplicates, refused, bytes, last_at, error FROM system.sources WHERE state = 'listening' ORDER BY last_at DESC LIMIT 100";
}

/// Why items wait in quarantine, the newest reason first, with one of its explanations.
export function quarantined() {
  return "SELECT stream, reason, count(*) AS items, max(time) AS newest, max(detail) AS detail FROM system.quarantine WHERE state = 'waiting' GROUP BY stream, reason ORDER BY newest DESC LIMIT 20";
}
