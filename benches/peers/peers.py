"""DuckDB or chdb, asked by main.rs: JSON lines on standard input, one answer for each on standard output.

    python peers.py probe            the versions that are installed
    python peers.py duckdb | chdb    the first line says what to load, each other one is a question

Each form of the data is made once, in a folder of its own, with a note of what it was made of; a later run
with the same note keeps it. An answer is fetched whole, as Arrow; what is written for the comparison is
written after the clock has stopped.
"""

import json
import os
import shutil
import sys
import time
from importlib import metadata

# Text that has few enough values for a dictionary of chdb's. Queries of requests have many.
DICTIONARIES = {"host", "logname", "user", "method", "path", "protocol", "referrer", "user_agent", "site"}


def quoted(columns):
    return ", ".join(f'"{column}"' for column in columns)


class Duckdb:
    """The parts as they are, and a table of its own in the same order."""

    def __init__(self, load):
        import duckdb
        import pyarrow

        self.pyarrow = pyarrow
        self.load = load
        folder = os.path.join(load["dir"], "duckdb-" + metadata.version("duckdb"))
        self.kept = is_kept(folder, load)
        self.db = duckdb.connect(os.path.join(folder, "table.db"))
        self.run(f"SET threads = {load['threads']}")
        self.run("SET TimeZone = 'UTC'")
        files = ", ".join(f"'{file}'" for file in load["files"])
        # A part leaves out columns of which it has no value; to look for such takes time in each question.
        differ = self.run(
            "SELECT count(DISTINCT names) > 1 FROM (SELECT list(name ORDER BY name) AS names "
            f"FROM parquet_schema([{files}]) GROUP BY file_name)"
        )[0][0]
        # The folders' names are no column.
        self.run(
            "CREATE OR REPLACE TEMP VIEW parts AS SELECT * FROM "
            f"read_parquet([{files}], union_by_name = {differ}, hive_partitioning = false)"
        )
        if not self.kept:
            self.make()
            keep(folder, load)

    def run(self, sql):
        # Results stream: one that is not read to its end keeps the connection busy.
        return self.db.execute(sql).fetchall()

    def make(self):
        columns = quoted(c for c in self.load["columns"] if c != "time")
        # Times without a zone are cut to hours and days much faster.
        self.run(
            f"CREATE TABLE access AS SELECT make_timestamp(epoch_us(time)) AS time, {columns} "
            "FROM parts ORDER BY host, time"
        )
        self.run("CHECKPOINT")

    def count(self):
        return self.run("SELECT count(*) FROM access")[0][0]

    def ask(self, sql):
        return self.db.sql(sql).to_arrow_table()

    def again(self, sql, rows):
        # A relation plans twice, which one number would feel.
        return self.run(sql) if rows == 1 else self.ask(sql)

    def write(self, answer, path):
        with self.pyarrow.OSFile(path, "wb") as file:
            with self.pyarrow.ipc.new_file(file, answer.schema) as writer:
                writer.write_table(answer)
        return answer.num_rows


class Chdb:
    """MergeTrees in the order of host and time, and of time alone with filters of host and path."""

    TABLES = {
        "by_host": ("host, time", ["path"]),
        "by_time": ("time", ["host", "path"]),
    }
    SETTINGS = {
        # As plain as Arrow can be: what comes out is to be compared, not kept.
        "output_format_arrow_compression_method": "'none'",
        "output_format_arrow_string_as_string": "1",
        "output_format_arrow_low_cardinality_as_dictionary": "0",
        "use_hive_partitioning": "0",
    }

    def __init__(self, load):
        import pyarrow
        from chdb import session

        self.pyarrow = pyarrow
        self.load = load
        folder = os.path.join(load["dir"], "chdb-" + metadata.version("chdb"))
        self.kept = is_kept(folder, load)
        self.session = session.Session(os.path.join(folder, "data"))
        self.run(f"SET max_threads = {load['threads']}")
        for name, value in self.SETTINGS.items():
            self.run(f"SET {name} = {value}")
        self.run("CREATE DATABASE IF NOT EXISTS peers")
        self.run("USE peers")
        if not self.kept:
            self.make()
            keep(folder, load)

    def run(self, sql, output="JSONCompact"):
        return self.session.query(sql, output)

    def rows(self, sql):
        return json.loads(str(self.run(sql)))["data"]

    def make(self):
        columns = self.columns()
        for table, (order, filters) in self.TABLES.items():
            indexes = [f"INDEX {f}_filter {f} TYPE bloom_filter(0.01) GRANULARITY 1" for f in filters]
            parts = ", ".join(columns + indexes)
            self.run(f"CREATE TABLE {table} ({parts}) ENGINE = MergeTree ORDER BY ({order})")
            names = quoted(self.load["columns"])
            for file in self.load["files"]:
                self.run(f"INSERT INTO {table} ({names}) SELECT {names} FROM {self.file(file)}")
            # One part, so that no merge goes on beside the questions.
            self.run(f"OPTIMIZE TABLE {table} FINAL")

    def file(self, path):
        types = ", ".join(f'"{name}" {kind}' for name, kind in self.types().items())
        return "file('{}', 'Parquet', '{}')".format(path, types.replace("'", "\\'"))

    def types(self):
        """What the parts' columns are, where there may be nothing."""
        if not hasattr(self, "known"):
            known = {}
            for file in self.load["files"]:
                for row in self.rows(f"DESCRIBE file('{file}', 'Parquet')"):
                    known.setdefault(row[0], row[1])
            self.known = {name: known[name] for name in self.load["columns"]}
        return self.known

    def columns(self):
        """Definitions of columns; one that has a value in every row says so, which is faster."""
        names = list(self.types())
        nulls = {name: 0 for name in names}
        tested = ", ".join(f'toInt64(countIf(isNull("{name}")))' for name in names)
        for file in self.load["files"]:
            found = self.rows(f"SELECT {tested} FROM {self.file(file)}")[0]
            for name, count in zip(names, found):
                nulls[name] += int(count)
        defined = []
        for name, kind in self.types().items():
            plain = kind[len("Nullable("):-1] if kind.startswith("Nullable(") else kind
            kind = f"Nullable({plain})" if nulls[name] else plain
            if name in DICTIONARIES and plain == "String":
                kind = f"LowCardinality({kind})"
            defined.append(f'"{name}" {kind}')
        return defined

    def count(self):
        counts = {int(self.rows(f"SELECT toInt64(count()) FROM {table}")[0][0]) for table in self.TABLES}
        return counts.pop() if len(counts) == 1 else None

    def ask(self, sql):
        return self.session.query(sql, "Arrow").bytes()

    def again(self, sql, _rows):
        return self.ask(sql)

    def write(self, answer, path):
        with open(path, "wb") as file:
            file.write(answer)
        with self.pyarrow.OSFile(path, "rb") as file:
            return self.pyarrow.ipc.open_file(file).read_all().num_rows


PEERS = {"duckdb": Duckdb, "chdb": Chdb}


def note(folder):
    return os.path.join(folder, "made-of.json")


def made_of(load):
    return {"files": load["files"], "rows": load["rows"], "columns": load["columns"], "of": load["of"]}


def is_kept(folder, load):
    """Whether an earlier run has made it of the same; else what is left of that one is gone."""
    try:
        with open(note(folder)) as file:
            if json.load(file) == made_of(load):
                return True
    except (OSError, ValueError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return False


def keep(folder, load):
    with open(note(folder), "w") as file:
        json.dump(made_of(load), file)


def answer(peer, asked):
    began = time.perf_counter()
    found = peer.ask(asked["sql"])
    times = [time.perf_counter() - began]
    rows = peer.write(found, asked["into"])
    for _ in range(asked["runs"]):
        found = None  # freed before the clock starts
        began = time.perf_counter()
        found = peer.again(asked["sql"], rows)
        times.append(time.perf_counter() - began)
    return {"ms": [seconds * 1e3 for seconds in times], "rows": rows}


def main():
    name = sys.argv[1]
    if name == "probe":
        print(json.dumps({module: metadata.version(module) for module in ["duckdb", "chdb", "pyarrow"]}))
        return
    # What a library prints must not come between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what):
        out.write(json.dumps(what) + "\n")
        out.flush()

    load = json.loads(sys.stdin.readline())
    began = time.perf_counter()
    peer = PEERS[name](load)
    seconds = time.perf_counter() - began
    found = peer.count()
    if found != load["rows"]:
        say({"error": f"{name} has {found} rows, not {load['rows']}"})
        return
    say({"kept": peer.kept, "seconds": seconds})
    for line in sys.stdin:
        try:
            say(answer(peer, json.loads(line)))
        except Exception as error:  # whatever it is, it is the answer
            say({"error": f"{type(error).__name__}: {error}"})


main()
