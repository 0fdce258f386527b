"""The same statements over PostgreSQL's wire, in text and in binary, and over HTTP.

Usage: questions.py HOST PORT URL < STATEMENTS, one to a line. The values of psycopg must be those of
PyArrow, which reads HTTP's answer; a statement that one of them refuses, the other refuses too.
"""

import decimal
import json
import math
import sys
import urllib.error
import urllib.request

import psycopg
import pyarrow

HOST, PORT, URL = sys.argv[1:]
ARROW = "application/vnd.apache.arrow.stream"


def over_http(statement):
    """Returns the columns and rows of an answer; None of a refused statement."""
    request = urllib.request.Request(
        f"{URL}/api/v1/sql", statement.encode(), {"Accept": ARROW, "Content-Type": "text/plain"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            table = pyarrow.ipc.open_stream(answer.read()).read_all()
    except urllib.error.HTTPError as error:
        assert error.code == 400, (statement, error.read())
        return None
    columns = [column.to_pylist() for column in table.columns]
    return table.column_names, [list(row) for row in zip(*columns)]


def over_postgres(connection, statement, binary):
    with connection.cursor(binary=binary) as cursor:
        try:
            cursor.execute(statement.encode())
        except psycopg.Error:
            return None
        names = [column.name for column in cursor.description]
        return names, [list(row) for row in cursor.fetchall()]


def plain(value):
    """Returns a value in the form in which both libraries agree."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.15g}")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def same(ours, theirs):
    """Returns whether values are equal. Arrow knows no JSON: there it is text."""
    if isinstance(ours, (dict, list)) and isinstance(theirs, (str, bytes)):
        return ours == json.loads(theirs)
    return plain(ours) == plain(theirs)


def main():
    compared = rows = 0
    with psycopg.connect(f"host={HOST} port={PORT} user=ann dbname=logmill", autocommit=True) as connection:
        for statement in sys.stdin.read().splitlines():
            expected = over_http(statement)
            for binary in (False, True):
                found = over_postgres(connection, statement, binary)
                if expected is None or found is None:
                    assert found == expected, (statement, binary, found, expected)
                    continue
                assert found[0] == expected[0], (statement, found[0], expected[0])
                assert len(found[1]) == len(expected[1]), (statement, binary)
                for ours, theirs in zip(found[1], expected[1]):
                    for name, mine, their in zip(found[0], ours, theirs):
                        assert same(mine, their), (statement, binary, name, mine, their)
                compared += 1
                rows += len(found[1])
    print(f"ok {compared} answers, {rows} rows")


main()
