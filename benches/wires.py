"""What clients of each protocol see: large answers, the latency of a panel, and fifty panels under load.

    python benches/wires.py --logmill target/release/logmill [--dir target/bench] [--lines 12000000] [--days 366]
        [--rows 10000000] [--seconds 60] [--rate 20000]
        [--only rows,panel,hours,windows,refresh]

The Python needs psycopg, adbc-driver-flightsql, adbc-driver-postgresql, pyarrow and duckdb. psql must be
installed; with PostgreSQL's server, a table of its own is measured beside. The store and that table stay
in --dir. The server is the real program on loopback; clients are processes of their own, or this one.

rows      an answer of --rows rows and five columns, read to its end by each client, with the most memory of
          the server above the memory that it had at rest. DuckDB reads the parts in this process.
panel     hits of one page by hour over a year, 300 times: over PostgreSQL (simple and prepared) and HTTP.
hours     other questions of hours: few hours of all pages, all hours, sizes.
windows   counts of LogQL over Loki's API: instant ones of a month and a year, weeks, days; log volumes.
refresh   fifty panels every five seconds while --rate events a second come in; the same ingest alone before.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import http.client
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

COLUMNS = "time, host, path, status, response_size"
ARROW = "application/vnd.apache.arrow.stream"
# Panels of a refresh, and their interval, seconds.
PANELS, EVERY_S = 50, 5
BATCH = 1000


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


class Server:
    """The program, serving a store on ports that the system picks."""

    def __init__(self, program, data):
        unlimited = {"ROWS_MAX": "0", "RESULT_BYTES_MAX": "0", "TIME_MAX": "0s"}
        environment = {f"LOGMILL_QUERY__{name}": value for name, value in unlimited.items()}
        places = ["--http", "127.0.0.1:0", "--postgres", "127.0.0.1:0", "--flight", "127.0.0.1:0"]
        self.child = subprocess.Popen(
            [program, "serve", *places, data],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        found = "".join(next(self.child.stdout) for _ in range(3))
        port = re.search(r"psql -h 127.0.0.1 -p (\d+)", found)[1]
        self.http = re.search(r"http://(127.0.0.1:\d+)", found)[1]
        self.flight = re.search(r"grpc://127.0.0.1:\d+", found)[0]
        self.dsn = f"host=127.0.0.1 port={port} user=ann dbname=logmill"

    def memory_mib(self, field):
        with open(f"/proc/{self.child.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))

    def forget_peak(self):
        with open(f"/proc/{self.child.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(60)


def run(*command, **more):
    subprocess.run([str(part) for part in command], check=True, **more)


def store(settings):
    """Returns the folder of the store; it is made where it is not there."""
    data = os.path.join(settings.dir, f"wires-{settings.lines}-{settings.days}")
    if not os.path.isdir(data):
        os.makedirs(settings.dir, exist_ok=True)
        log = data + ".log"
        # The last day is yesterday, so that live events go on from there.
        start = (int(time.time()) // 86_400 - settings.days) * 86_400
        span = ["--lines", settings.lines, "--days", settings.days, "--start", start]
        run(settings.logmill, "demo", *span, "--out", log)
        run(settings.logmill, "import", "--stream", "access", "--data", data, log)
        os.remove(log)
        run(settings.logmill, "partition", "compact", "access", "--data", data)
    return data


# ---- large answers


def psql(dsn, command, is_copy):
    flags = [] if is_copy else ["--no-align", "--tuples-only"]
    with open(os.devnull, "w", encoding="ascii") as nothing:
        options = ["-v", "FETCH_COUNT=0"] if is_copy else ["-v", "FETCH_COUNT=10000"]
        run("psql", "-X", "-q", dsn, *flags, *options, "-c", command, stdout=nothing)


def psql_whole(dsn, statement):
    """One answer that psql reads whole, in text; libpq holds it."""
    with open(os.devnull, "w", encoding="ascii") as nothing:
        run("psql", "-X", "-q", "-A", "-t", dsn, "-c", statement, stdout=nothing)


def http_bytes(server, statement, accept):
    request = urllib.request.Request(
        f"http://{server.http}/api/v1/sql", statement.encode(), {"Accept": accept}
    )
    with urllib.request.urlopen(request) as answer:
        while answer.read(1 << 20):
            pass


def http_arrow(server, statement):
    import pyarrow

    request = urllib.request.Request(
        f"http://{server.http}/api/v1/sql", statement.encode(), {"Accept": ARROW}
    )
    with urllib.request.urlopen(request) as answer:
        return sum(batch.num_rows for batch in pyarrow.ipc.open_stream(answer))


def adbc(connection, statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())


def postgres_own(settings, server, rows, stack):
    """Starts PostgreSQL's own server with the same rows in a table; returns its DSN, None without it."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        return None
    programs, folder = found[-1], os.path.abspath(os.path.join(settings.dir, "postgresql"))
    # It refuses to run as root.
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    is_new = not os.path.isdir(folder)
    if is_new:
        os.makedirs(folder)
        if as_user:
            shutil.chown(folder, "postgres", "postgres")
        run(*as_user, f"{programs}/initdb", "-D", folder, "--auth=trust", "-U", "ann", stdout=subprocess.DEVNULL)
    options = f"-p 54329 -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c max_wal_size=8GB"
    log = os.path.join(folder, "log")
    run(*as_user, f"{programs}/pg_ctl", "-D", folder, "-o", options, "-l", log, "-w", "start", stdout=subprocess.DEVNULL)
    stop = [*as_user, f"{programs}/pg_ctl", "-D", folder, "-m", "fast", "stop"]
    stack.callback(run, *stop, stdout=subprocess.DEVNULL)
    dsn = "host=127.0.0.1 port=54329 user=ann dbname=postgres"
    if is_new:
        run("psql", "-X", "-q", dsn, "-c", "CREATE UNLOGGED TABLE access (time timestamptz, host text, path text, status int2, response_size int8)")
        copy = f"COPY (SELECT {COLUMNS} FROM access LIMIT {rows}) TO STDOUT (FORMAT binary)"
        out = subprocess.Popen(["psql", "-X", "-q", server.dsn, "-c", copy], stdout=subprocess.PIPE)
        run("psql", "-X", "-q", dsn, "-c", "COPY access FROM STDIN (FORMAT binary)", stdin=out.stdout)
        out.wait()
        run("psql", "-X", "-q", dsn, "-c", "VACUUM ANALYZE access")
    return dsn


def large(settings, server, data, stack):
    import adbc_driver_flightsql.dbapi
    import adbc_driver_postgresql.dbapi
    import duckdb

    rows = settings.rows
    statement = f"SELECT {COLUMNS} FROM access LIMIT {rows}"
    own = postgres_own(settings, server, rows, stack)
    flight = adbc_driver_flightsql.dbapi.connect(server.flight, autocommit=True)
    files = glob.glob(os.path.join(data, "streams", "access", "*", "*.parquet"))
    duck = duckdb.connect()
    duck.execute("SET threads = 2")
    parts = "read_parquet(" + json.dumps(files).replace('"', "'") + ", union_by_name = true, hive_partitioning = false)"
    of_parts = f"SELECT {COLUMNS} FROM {parts} LIMIT {rows}"

    def wire(dsn):
        connection = adbc_driver_postgresql.dbapi.connect(
            "postgresql://" + dsn.split("user=")[1].split()[0] + "@" + dsn.split("host=")[1].split()[0]
            + ":" + dsn.split("port=")[1].split()[0] + "/" + dsn.split("dbname=")[1],
            autocommit=True,
        )
        return lambda: adbc(connection, statement)

    cases = [
        ("Logmill", "PostgreSQL, text: psql, 10,000 rows at a time", lambda: psql(server.dsn, statement, False)),
        ("Logmill", "PostgreSQL, text: psql, whole", lambda: psql_whole(server.dsn, statement)),
        ("Logmill", "PostgreSQL, COPY text: psql", lambda: psql(server.dsn, f"COPY ({statement}) TO STDOUT", True)),
        ("Logmill", "PostgreSQL, COPY binary: psql", lambda: psql(server.dsn, f"COPY ({statement}) TO STDOUT (FORMAT binary)", True)),
        ("Logmill", "PostgreSQL, COPY binary into Arrow: ADBC", wire(server.dsn)),
        ("Logmill", "Flight SQL into Arrow: ADBC", lambda: adbc(flight, statement)),
        ("Logmill", "HTTP, Arrow: PyArrow", lambda: http_arrow(server, statement)),
        ("Logmill", "HTTP, CSV", lambda: http_bytes(server, statement, "text/csv")),
        ("Logmill", "HTTP, NDJSON", lambda: http_bytes(server, statement, "application/x-ndjson")),
        ("DuckDB", "parts into Arrow, in process", lambda: sum(b.num_rows for b in duck.sql(of_parts).to_arrow_reader(100_000))),
        ("DuckDB", "parts into CSV, in process", lambda: duck.execute(f"COPY ({of_parts}) TO '/dev/null' (FORMAT csv)")),
    ]
    if own:
        cases += [
            ("PostgreSQL", "text: psql, 10,000 rows at a time", lambda: psql(own, statement, False)),
            ("PostgreSQL", "COPY text: psql", lambda: psql(own, f"COPY ({statement}) TO STDOUT", True)),
            ("PostgreSQL", "COPY binary: psql", lambda: psql(own, f"COPY ({statement}) TO STDOUT (FORMAT binary)", True)),
            ("PostgreSQL", "COPY binary into Arrow: ADBC", wire(own)),
        ]
    print(f"\n{rows} rows of {COLUMNS}\n\n| server | form and client | s | million rows/s | memory above rest, MiB |\n|---|---|---|---|---|")
    for name, form, act in cases:
        times, peak = [], 0.0
        for _ in range(2):
            time.sleep(1)
            rest = server.memory_mib("VmRSS")
            server.forget_peak()
            began = time.monotonic()
            act()
            times.append(time.monotonic() - began)
            peak = max(peak, server.memory_mib("VmHWM") - rest)
        memory = f"{peak:.0f}" if name == "Logmill" else ""
        print(f"| {name} | {form} | {min(times):.2f} | {rows / min(times) / 1e6:.2f} | {memory} |", flush=True)


# ---- a panel


def panel_statement(path):
    return (
        "SELECT date_trunc('hour', time) AS hour, count(*) AS hits FROM access "
        f"WHERE path = '{path}' GROUP BY 1 ORDER BY 1"
    )


def panel(settings, server):
    import psycopg

    statement_paths = paths(server, 40)
    connection = psycopg.connect(server.dsn, autocommit=True)
    prepared = psycopg.connect(server.dsn, autocommit=True, prepare_threshold=0)
    keep = http.client.HTTPConnection(server.http)

    def over_http(path):
        keep.request("POST", "/api/v1/sql", panel_statement(path), {"Accept": "application/json"})
        return keep.getresponse().read()

    by_parameter = panel_statement("?").replace("'?'", "%s")
    cases = [
        ("PostgreSQL, simple", lambda path: psycopg.ClientCursor(connection).execute(panel_statement(path)).fetchall()),
        ("PostgreSQL, prepared, binary", lambda path: prepared.execute(by_parameter, [path], binary=True).fetchall()),
        ("HTTP, JSON", over_http),
    ]
    print("\nhits of a page by hour over the year, ms at the client\n\n| wire | median | p99 | most |\n|---|---|---|---|")
    for name, act in cases:
        times = []
        for nth in range(300):
            path = statement_paths[nth % len(statement_paths)]
            began = time.monotonic()
            act(path)
            times.append((time.monotonic() - began) * 1e3)
        print(f"| {name} | {statistics.median(times):.1f} | {percentile(times, 0.99):.1f} | {max(times):.1f} |", flush=True)


def paths(server, count):
    """Returns pages from the most frequent to rare ones."""
    import psycopg

    with psycopg.connect(server.dsn) as connection:
        statement = "SELECT path FROM stats.monthly GROUP BY path ORDER BY sum(hits) DESC, path LIMIT 2000"
        found = [row[0] for row in connection.execute(statement)]
    return found[:: max(1, len(found) // count)][:count]


# ---- questions of hours


def hours(server):
    import psycopg

    connection = psycopg.connect(server.dsn, autocommit=True)
    day = connection.execute("SELECT max(bucket)::date - INTERVAL '160 days' FROM traffic.daily").fetchone()[0]

    def within(column, from_h, width_h):
        first = f"TIMESTAMP '{day:%Y-%m-%d} 00:00:00' + INTERVAL '{from_h} hours'"
        return f"{column} >= {first} AND {column} < {first} + INTERVAL '{width_h} hours'"

    pages = "SELECT path, sum(hits) FROM stats.hourly WHERE {} GROUP BY path ORDER BY 2 DESC LIMIT 20"
    hits = "SELECT bucket, sum(hits) FROM {} WHERE {} GROUP BY 1 ORDER BY 1"
    sizes = (
        "SELECT date_trunc('hour', time), approx_percentile_cont(response_size, 0.99) FROM access "
        "WHERE {} GROUP BY 1 ORDER BY 1"
    )
    questions = {
        "one hour, all pages": pages.format(within("bucket", 14, 1)),
        "six hours, all pages": pages.format(within("bucket", 14, 6)),
        "a month of hours, all pages": hits.format("stats.hourly", within("bucket", 0, 720)),
        "a year of hours, all pages": hits.format("stats.hourly", "true"),
        "a year of hours of traffic": hits.format("traffic.hourly", "true"),
        "traffic, one hour by status": "SELECT status, sum(hits) FROM traffic.hourly "
        f"WHERE {within('bucket', 14, 1)} GROUP BY 1 ORDER BY 1",
        "traffic, a day by the hour": hits.format("traffic.hourly", within("bucket", 0, 24)),
        "p99 of the size, a day by the hour": sizes.format(within("time", 0, 24)),
        "p99 of the size, a week by the hour": sizes.format(within("time", 0, 168)),
    }
    print("\nquestions of hours, medians of 15, ms\n")
    for name, statement in questions.items():
        times = []
        for _ in range(15):
            began = time.monotonic()
            found = connection.execute(statement).fetchall()
            times.append((time.monotonic() - began) * 1e3)
        assert found, statement
        print(f"| {name} | {statistics.median(times):.1f} |", flush=True)


# ---- counts of LogQL


def windows(settings, server):
    import psycopg

    connection = psycopg.connect(server.dsn, autocommit=True)
    (first,) = connection.execute("SELECT extract(epoch FROM min(bucket))::bigint FROM traffic.daily").fetchone()
    # Past midnight, so that the ends of windows divide hours and minutes.
    end = first + settings.days * 86_400 - 49_349
    week, year = 7 * 86_400, settings.days * 86_400
    classes = "sum by (status_class) (count_over_time({stream=\"access\"}[%s]))"
    volume = "sum by (level, detected_level) (count_over_time({stream=\"access\"} | drop __error__ [1d]))"
    cases = [
        ("30 days by class of status", "query", classes % "30d", {"time": end}),
        ("all days by class of status", "query", classes % f"{settings.days}d", {"time": end}),
        ("five weeks by week", "query_range", "sum(count_over_time({stream=\"access\"}[7d]))",
         {"start": end - 4 * week, "end": end, "step": week}),
        ("all days by day and class", "query_range", classes % "1d", {"start": end - year, "end": end, "step": "1d"}),
        ("counts of all days by day", "query_range", volume, {"start": end - year, "end": end, "step": "1d"}),
    ]
    # Grafana aligns the range of a log volume to its steps, and names its purpose in a header.
    midnight = end // 86_400 * 86_400
    tag = {"X-Query-Tags": "Source=logvolhist"}
    for name, labels, days, step in [
        ("all days by day", "level, detected_level", settings.days, 86_400),
        ("all days by day and class", "status_class", settings.days, 86_400),
        ("30 days by two hours", "level, detected_level", 30, 7_200),
        ("one day by two minutes", "level, detected_level", 1, 120),
    ]:
        query = f"sum by ({labels}) (count_over_time({{stream=\"access\"}} | drop __error__ [{step}s]))"
        range_ = {"start": midnight - days * 86_400, "end": midnight, "step": step}
        cases.append(("log volume of " + name, "query_range", query, range_, tag))
    keep = http.client.HTTPConnection(server.http)
    print("\ncounts of LogQL, medians of 9, ms\n")
    for name, call, query, more, *headers in cases:
        path = f"/loki/api/v1/{call}?" + urllib.parse.urlencode({"query": query, **more})
        times = []
        for _ in range(9):
            began = time.monotonic()
            keep.request("GET", path, headers=dict(*headers))
            answer = keep.getresponse()
            body = answer.read()
            times.append((time.monotonic() - began) * 1e3)
            assert answer.status == 200 and json.loads(body)["data"]["result"], body[:300]
        print(f"| {name} | {statistics.median(times):.1f} |", flush=True)


# ---- fifty panels under load


def lines(count):
    """Returns lines of the present second."""
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
    page = random.Random(count).random
    return "".join(
        f'203.0.{n % 250}.{n % 199} - - [{stamp}] "GET /live/{int(page() * 500)} HTTP/1.1" 200 {n * 7} "-" "bench"\n'
        for n in range(count)
    ).encode()


class Sender(threading.Thread):
    """Sends a rate of events, one batch after the other, and keeps the times of acknowledgements."""

    def __init__(self, server, rate, until):
        super().__init__()
        self.server, self.rate, self.until = server, rate, until
        self.times, self.sent, self.late = [], 0, 0.0

    def run(self):
        connection = http.client.HTTPConnection(self.server.http)
        began = time.monotonic()
        while time.monotonic() < self.until:
            due = began + self.sent / self.rate
            time.sleep(max(0.0, due - time.monotonic()))
            self.late = max(self.late, time.monotonic() - due)
            body = lines(BATCH)
            sent = time.monotonic()
            connection.request("POST", "/api/v1/ingest/access", body)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            self.times.append((time.monotonic() - sent) * 1e3)
            self.sent += BATCH


def dashboard(server):
    """Returns the fifty panels: of pages, of all traffic, of statuses, and of the present hour."""
    chosen = paths(server, 20)
    hour = "time >= now() - INTERVAL '1 hour'"
    panels = [panel_statement(path) for path in chosen]
    for days in (1, 2, 7, 14, 30, 60, 90, 180, 270, 366):
        since = f"bucket >= now() - INTERVAL '{days} days'"
        level = "traffic.minutely" if days < 3 else "traffic.hourly"
        panels.append(f"SELECT bucket, sum(hits) FROM {level} WHERE {since} GROUP BY bucket ORDER BY bucket")
        panels.append(f"SELECT bucket, status / 100, sum(hits) FROM {level} WHERE {since} GROUP BY 1, 2 ORDER BY 1, 2")
    for width in ("1 minute", "2 minutes", "5 minutes", "10 minutes", "15 minutes"):
        panels.append(f"SELECT time_bucket('{width}', time) AS t, count(*) FROM access WHERE {hour} GROUP BY 1 ORDER BY 1")
        panels.append(f"SELECT time_bucket('{width}', time) AS t, max(response_size) FROM access WHERE {hour} GROUP BY 1 ORDER BY 1")
    assert len(panels) == PANELS, len(panels)
    return panels


def refresh(settings, server):
    import psycopg

    rates = []
    for is_asked in (False, True):
        until = time.monotonic() + settings.seconds
        sender = Sender(server, settings.rate, until)
        times = []
        panels = dashboard(server)
        sender.start()
        if is_asked:
            local = threading.local()

            def ask(statement):
                if not hasattr(local, "connection"):
                    local.connection = psycopg.connect(server.dsn, autocommit=True)
                began = time.monotonic()
                local.connection.execute(statement).fetchall()
                return (time.monotonic() - began) * 1e3

            # A browser asks six panels of a dashboard at a time.
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                while time.monotonic() < until - EVERY_S:
                    began = time.monotonic()
                    times += pool.map(ask, panels)
                    time.sleep(max(0.0, began + EVERY_S - time.monotonic()))
        sender.join()
        rates.append((sender.sent / settings.seconds, statistics.median(sender.times), percentile(sender.times, 0.99), sender.late))
        label = "with the panels" if is_asked else "alone"
        rate, middle, late, behind = rates[-1]
        print(f"\ningest {label}: {rate:.0f} events/s, acknowledged in {middle:.1f} ms (p99 {late:.1f}), at most {behind * 1e3:.0f} ms behind its times")
    print(f"{len(times)} panels: median {statistics.median(times):.1f} ms, p95 {percentile(times, 0.95):.1f}, p99 {percentile(times, 0.99):.1f}, most {max(times):.1f}")
    first, later = times[:PANELS], times[PANELS:]
    for name, kind in (("pages", range(20)), ("all traffic", range(20, 40)), ("raw events", range(40, PANELS))):
        of_kind = [ms for nth, ms in enumerate(later) if nth % PANELS in kind]
        most = max(first[nth] for nth in kind)
        print(f"  {name}: median {statistics.median(of_kind):.1f} ms, most {max(of_kind):.1f}; in the first refresh {most:.1f}")
    flood = []
    for is_asked in (False, True):
        stop = time.monotonic() + 10
        sender = Sender(server, 10_000_000, stop)
        sender.start()
        if is_asked:
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                while time.monotonic() < stop:
                    began = time.monotonic()
                    list(pool.map(ask, panels))
                    time.sleep(max(0.0, min(stop, began + EVERY_S) - time.monotonic()))
        sender.join()
        flood.append(sender.sent / 10)
    print(f"one sender as fast as it can: {flood[0]:.0f} events/s alone, {flood[1]:.0f} with the panels ({flood[1] / flood[0]:.2f})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--logmill", default="target/release/logmill")
    parser.add_argument("--dir", default="target/bench")
    parser.add_argument("--lines", type=int, default=12_000_000)
    parser.add_argument("--days", type=int, default=366)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--only", default="rows,panel,hours,windows,refresh")
    settings = parser.parse_args()
    data = store(settings)
    with contextlib.ExitStack() as stack:
        server = Server(settings.logmill, data)
        stack.callback(server.stop)
        parts = settings.only.split(",")
        if "rows" in parts:
            large(settings, server, data, stack)
        if "panel" in parts:
            panel(settings, server)
        if "hours" in parts:
            hours(server)
        if "windows" in parts:
            windows(settings, server)
        if "refresh" in parts:
            refresh(settings, server)


main()
