"""Python's ADBC driver of Flight SQL against a running server, into PyArrow, pandas and Polars.

Usage: flight.py URI EVENTS [CERTIFICATE USER PASSWORD]. The store holds an access log of EVENTS
events in the stream `access`. Each check is a function; a library that is not installed is named
as skipped.
"""

import datetime
import importlib
import importlib.util
import sys
import traceback

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager

URI, EVENTS = sys.argv[1], int(sys.argv[2])
CERTIFICATE, USER, PASSWORD = (sys.argv[3:] + [None] * 3)[:3]
UTC = datetime.timezone.utc


def options():
    found = {}
    if CERTIFICATE:
        with open(CERTIFICATE, encoding="ascii") as file:
            found["adbc.flight.sql.client_option.tls_root_certs"] = file.read()
    if USER:
        found.update(username=USER, password=PASSWORD)
    return found


def connect(**more):
    return flight_sql.connect(URI, db_kwargs={**options(), **more}, autocommit=True)


def error_of(act):
    """Returns the error that `act` raises."""
    try:
        act()
    except adbc_driver_manager.Error as error:
        return error
    raise AssertionError("no error")


def values(connection, cursor):
    cursor.execute("SELECT count(*), min(path), min(time), CAST(1.5 AS double), NULL FROM access")
    assert cursor.fetchone() == (
        EVENTS, "/page/0", datetime.datetime(2024, 3, 1, tzinfo=UTC), 1.5, None,
    )
    cursor.execute("SELECT host, status FROM access")
    assert len(cursor.fetchall()) == EVENTS


def parameters(connection, cursor):
    day = datetime.datetime(2024, 3, 1, 1, tzinfo=UTC)
    cursor.execute(
        "SELECT count(*) FROM access WHERE status = $1 AND time >= $2 AND path LIKE $3",
        parameters=(404, day, "/page/%"),
    )
    (bound,) = cursor.fetchone()
    cursor.execute(
        "SELECT count(*) FROM access WHERE status = 404 AND time >= '2024-03-01T01:00:00Z'"
    )
    assert (bound,) == cursor.fetchone() and bound > 0
    for value in (7, 2.5, "tëxt", True, None, day):
        cursor.execute("SELECT $1 AS v", parameters=(value,))
        assert cursor.fetchone() == (value,), value


def batches(connection, cursor):
    cursor.execute("SELECT * FROM access a CROSS JOIN generate_series(1, 30)")
    with cursor.fetch_record_batch() as reader:
        rows = [batch.num_rows for batch in reader]
    assert sum(rows) == 30 * EVENTS and len(rows) > 3, rows


def errors(connection, cursor):
    for sql, words in [
        ("SELECT * FROM acces", "access"), ("SELEC", ""), ("DROP TABLE access", ""),
    ]:
        assert words in str(error_of(lambda: cursor.execute(sql))), sql
    cursor.execute("SELECT 1")
    assert cursor.fetchone() == (1,)


def metadata(connection, cursor):
    assert connection.adbc_get_info()["vendor_name"] == "Logmill"
    assert connection.adbc_get_table_types() == ["SYSTEM TABLE", "TABLE", "VIEW"]
    (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    assert catalog["catalog_name"] == "logmill"
    tables = {
        (schema["db_schema_name"], table["table_name"]): table["table_columns"]
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    }
    columns = [column["column_name"] for column in tables["public", "access"]]
    assert "status" in columns and ("stats", "hourly") in tables, (columns, tables.keys())
    schema = connection.adbc_get_table_schema("access")
    assert schema.field("status").name == "status"


def cancels(connection, cursor):
    cursor.execute("SELECT a.value FROM generate_series(1, 900000) a")
    reader = cursor.fetch_record_batch()
    next(reader)
    cursor.adbc_cancel()
    try:
        while True:
            next(reader)
    except StopIteration:
        raise AssertionError("the cancelled answer seems whole") from None
    except Exception:
        pass


def into_pandas(connection, cursor):
    pandas = importlib.import_module("pandas")
    frame = pandas.read_sql("SELECT time, host, status, response_size FROM access", connection)
    assert frame.shape == (EVENTS, 4)
    assert frame["response_size"].sum() == sum(11 * n for n in range(EVENTS))
    cursor.execute("SELECT * FROM stats.hourly")
    assert cursor.fetch_df()["hits"].sum() == EVENTS


def into_polars(connection, cursor):
    polars = importlib.import_module("polars")
    frame = polars.read_database("SELECT time, host, status FROM access", connection)
    assert frame.shape == (EVENTS, 3)
    assert frame.schema["status"] == polars.Int16 and frame.schema["host"] == polars.String
    assert frame.schema["time"] == polars.Datetime("us", "UTC"), frame.schema


def into_pyarrow(connection, cursor):
    cursor.execute("SELECT * FROM access ORDER BY time")
    table = cursor.fetch_arrow_table()
    assert table.num_rows == EVENTS and str(table.schema.field("path").type) == "string"


def login(connection, cursor):
    refused = error_of(lambda: connect(password="wrong").cursor().execute("SELECT 1"))
    assert "not valid" in str(refused), refused
    header = {"adbc.flight.sql.authorization_header": "Bearer wrong"}
    bearer = {**header, "username": "", "password": ""}
    error_of(lambda: connect(**bearer).cursor().execute("SELECT 1"))
    trusted = options().pop("adbc.flight.sql.client_option.tls_root_certs")
    assert trusted.startswith("-----BEGIN")
    other = {"adbc.flight.sql.client_option.tls_root_certs": ""}
    error_of(lambda: connect(**other).cursor().execute("SELECT 1"))


CHECKS = [
    (values, None), (parameters, None), (batches, "pyarrow"), (errors, None),
    (metadata, "pyarrow"), (cancels, "pyarrow"), (into_pandas, "pandas"),
    (into_polars, "polars"), (into_pyarrow, "pyarrow"),
]


def main():
    for check, library in CHECKS + ([(login, None)] if USER else []):
        if library and importlib.util.find_spec(library) is None:
            print("skipped", check.__name__, library)
            continue
        try:
            with connect() as connection, connection.cursor() as cursor:
                check(connection, cursor)
            print("ok", check.__name__)
        except Exception:  # Every check runs.
            print("FAILED", check.__name__, traceback.format_exc())


main()
