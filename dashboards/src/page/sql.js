// Questions to the server, and the one place where values become SQL.

/// A failure that a panel can show: what the server said, and what it advises.
export class QueryError extends Error {
  constructor(message, hint = null, code = null) {
    super(message);
    this.hint = hint;
    this.code = code;
  }
}

/// The only way a value reaches SQL text: a string literal, its single quotes doubled.
export function text(value) {
  return `'${String(value).replaceAll("'", "''")}'`;
}

/// A table or level name from the server, as an identifier ("stats.daily" has two parts).
export function name(value) {
  return String(value).split(".").map((part) => `"${part.replaceAll('"', '""')}"`).join(".");
}

/// An instant in milliseconds as a timestamp literal.
export function instant(ms) {
  return exact(new Date(ms).toISOString());
}

/// A timestamp as the server wrote it, to the microsecond, as a literal.
export function exact(stamp) {
  return `TIMESTAMP ${text(stamp)}`;
}

/// `column` equals `value`, where the empty string stands for null.
export function is(column, value) {
  return value === "" ? `${column} IS NULL` : `${column} = ${text(value)}`;
}

/// A template of `statements.js` on one line, with a value for each of its words in braces. A value
/// is not read again; one that is a function gets the columns that follow its word.
export function fill(template, values) {
  const line = template.trim().replaceAll(/\s+/g, " ");
  return line.replaceAll(/\{(\w+)(?:\(([^)]*)\))?\}/g, (_, word, columns) => {
    const value = values[word];
    return typeof value === "function" ? value(columns.split(", ")) : value;
  });
}

// A browser opens six connections to one host over HTTP/1.1, and the tail holds one of them:
// four queries at a time leave room for a click.
const PARALLEL_MAX = 4;
const TIMEOUT_MS = 60_000;
let running = 0;
const waiting = [];

async function turn() {
  if (running >= PARALLEL_MAX) await new Promise((resolve) => waiting.push(resolve));
  running += 1;
}

function done() {
  running -= 1;
  waiting.shift()?.();
}

let skew = 0;

/// Now by the server's clock, as far as its Date header tells: a browser whose clock is minutes
/// wrong would otherwise cut the newest events off.
export function now() {
  return Date.now() + skew;
}

function noteClock(response) {
  const theirs = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(theirs)) return;
  const difference = theirs - Date.now();
  skew = Math.abs(difference) > 5000 ? difference : 0;
}

async function read(url, options, signal) {
  await turn();
  try {
    if (signal?.aborted) throw new DOMException("left", "AbortError");
    const limit = AbortSignal.timeout(TIMEOUT_MS);
    let response;
    try {
      response = await fetch(url, { ...options, cache: "no-store", signal: signal ? AbortSignal.any([signal, limit]) : limit });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (error.name === "TimeoutError") throw new QueryError(`no answer within ${TIMEOUT_MS / 1000} s`, "choose a shorter range", "timeout");
      throw new QueryError("the server cannot be reached", "is `logmill serve` running?", "unreachable");
    }
    noteClock(response);
    let body = null;
    try {
      body = await response.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new QueryError(`the server answered ${response.status} without JSON`);
    }
    if (response.status === 401) document.dispatchEvent(new Event("login"));
    if (!response.ok || body?.error) {
      const error = body?.error ?? {};
      throw new QueryError(error.message ?? `the server answered ${response.status}`, error.hint, error.code);
    }
    return body;
  } finally {
    done();
  }
}

/// Runs one statement. Resolves to `{columns, rows, stats}`; rejects with a QueryError, or with an
/// AbortError when `signal` fires (closing the connection cancels the query on the server).
export async function run(sql, signal) {
  const answer = await read("/api/v1/sql", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ sql }),
  }, signal);
  return { columns: answer.columns ?? [], rows: answer.rows ?? [], stats: answer.stats ?? {} };
}

/// The streams that the store holds.
export async function streams(signal) {
  const list = await read("/api/v1/streams", { headers: { Accept: "application/json" } }, signal);
  return Array.isArray(list) ? list : (list.streams ?? []);
}

/// A timestamp of an answer as milliseconds, null where there is none.
export function when(value) {
  if (value === null || value === undefined) return null;
  const at = typeof value === "number" ? value : Date.parse(value);
  return Number.isNaN(at) ? null : at;
}
