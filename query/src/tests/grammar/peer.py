"""DuckDB, asked by peer.rs: the first line names the files of each table, each other one is a statement.

Answers are JSON, one for each line: {"rows": [[cell, …], …]} or {"error": text}. A cell is null, a number with a
fraction, or text.
"""

import datetime
import json
import sys

import duckdb


def cell(value):
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        text = value.isoformat()
        return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value)


def answer(db, sql):
    try:
        rows = db.execute(sql).fetchall()
        return {"rows": [[cell(value) for value in row] for row in rows]}
    except duckdb.Error as error:
        return {"error": str(error)}


def main():
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for name, path in json.loads(sys.stdin.readline()).items():
        if "." in name:
            db.execute(f"CREATE SCHEMA IF NOT EXISTS {name.split('.')[0]}")
        columns = db.execute(f"DESCRIBE SELECT * FROM read_parquet('{path}')").fetchall()
        # Times without a zone, as all of them are in UTC.
        columns = [
            f'make_timestamp(epoch_us("{column}")) AS "{column}"' if "TIMESTAMP" in kind else f'"{column}"'
            for column, kind, *_ in columns
        ]
        db.execute(f"CREATE TABLE {name} AS SELECT {', '.join(columns)} FROM read_parquet('{path}')")
    print(json.dumps({"version": duckdb.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(db, json.loads(line))), flush=True)


main()
