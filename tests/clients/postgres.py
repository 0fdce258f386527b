"""Real PostgreSQL drivers against a running server: psycopg 3, SQLAlchemy, pg8000 and asyncpg.

Usage: postgres.py HOST PORT EVENTS. The store holds an access log of EVENTS events in the stream
`access`. Each check is a function; a driver that is not installed is named as skipped.
"""

import asyncio
import datetime
import decimal
import sys
import threading
import time

HOST, PORT, EVENTS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DSN = f"host={HOST} port={PORT} user=tester dbname=logmill"
LONG = "SELECT count(*) FROM access a, access b, access c WHERE a.path || b.path < c.path || a.host"
UTC = datetime.timezone.utc


def state_of(act):
    """Returns the SQLSTATE of the error that `act` raises."""
    try:
        act()
    except Exception as error:  # Each driver has classes of its own.
        return getattr(error, "sqlstate", None) or error.args[0].get("C")
    raise AssertionError("no error")


def psycopg_values(psycopg):
    with psycopg.connect(DSN) as connection:
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                cursor.execute(
                    """SELECT true, 1::smallint, -2::int, 3000000000::bigint, 1.5::double precision,
                    'tëxt', NULL, timestamp '2026-11-02 12:00:00.25',
                    timestamptz '2026-11-02T12:00:00Z', date '2026-11-02',
                    interval '1 day 2 hours', decode('00ff', 'hex'), [1, 2, NULL], ['a b', '"'],
                    1.25::decimal(5, 2), -123456.789::decimal(20, 5), time '01:02:03'"""
                )
                assert cursor.fetchone() == (
                    True, 1, -2, 3000000000, 1.5, "tëxt", None,
                    datetime.datetime(2026, 11, 2, 12, 0, 0, 250000),
                    datetime.datetime(2026, 11, 2, 12, tzinfo=UTC), datetime.date(2026, 11, 2),
                    datetime.timedelta(days=1, hours=2), b"\x00\xff", [1, 2, None], ["a b", '"'],
                    decimal.Decimal("1.25"), decimal.Decimal("-123456.78900"),
                    datetime.time(1, 2, 3),
                ), binary


def psycopg_parameters(psycopg):
    with psycopg.connect(DSN) as connection:
        day = datetime.datetime(2026, 1, 1, tzinfo=UTC)
        for value, cast in [
            (7, "bigint"), (70000, "int"), (2**40, "bigint"), (1.5, "double precision"),
            ("it's", "text"), (True, "boolean"), (None, "text"), (day, "timestamptz"),
            (day.date(), "date"), (b"\x00\xff", "bytea"), ([1, 2], "bigint[]"),
        ]:
            for binary in ("%s", "%b", "%t"):
                row = connection.execute(f"SELECT {binary}::{cast}", (value,)).fetchone()
                assert row == (value,), (value, cast, binary, row)
        count = "SELECT count(*) FROM access WHERE status = %s AND time >= %s"
        rows = connection.execute(count, (200, day - datetime.timedelta(9999))).fetchone()
        literal = connection.execute("SELECT count(*) FROM access WHERE status = 200").fetchone()
        assert rows == literal and rows[0] > 0
        limited = connection.execute("SELECT host FROM access LIMIT %s", (3,)).fetchall()
        assert len(limited) == 3
        assert connection.execute("SELECT %s || 'b'", ("a",)).fetchone() == ("ab",)
        assert connection.execute("SELECT %s + 1", (1,)).fetchone() == (2,)


def psycopg_prepared(psycopg):
    with psycopg.connect(DSN, prepare_threshold=0) as connection:
        for n in range(10):
            found = connection.execute("SELECT %s::int * 2", (n,)).fetchone()
            assert found == (2 * n,)
        connection.execute("PREPARE p AS SELECT $1::int + $2::int")
        assert connection.execute("EXECUTE p (1, 2)").fetchone() == (3,)
        connection.execute("DEALLOCATE p")
        assert state_of(lambda: connection.execute("EXECUTE p (1, 2)")) == "26000"


def psycopg_cursors(psycopg):
    with psycopg.connect(DSN) as connection:
        for binary in (False, True):
            with connection.cursor("c", binary=binary) as cursor:
                cursor.itersize = 100
                cursor.execute("SELECT _id, time, status FROM access")
                assert sum(1 for _ in cursor) == EVENTS
        with connection.cursor("d", withhold=True) as cursor:
            cursor.execute("SELECT host FROM access")
            connection.commit()
            assert len(cursor.fetchmany(10)) == 10
        with connection.cursor("e") as cursor:
            cursor.execute("SELECT host FROM access")
            connection.rollback()
            assert state_of(lambda: cursor.fetchone()) == "34000"
            connection.rollback()


def psycopg_pipeline(psycopg):
    with psycopg.connect(DSN) as connection, connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", (n,)) for n in range(50)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(50))
    with psycopg.connect(DSN, autocommit=True) as connection:
        def act():
            with connection.pipeline():
                connection.execute("SELECT 1")
                connection.execute("SELECT no_column FROM access")
                connection.execute("SELECT 2")
        assert state_of(act) == "42703"
        assert connection.execute("SELECT 3").fetchone() == (3,)


def psycopg_copy(psycopg):
    with psycopg.connect(DSN) as connection:
        for form in ("text", "csv, header"):
            with connection.cursor().copy(f"COPY access TO STDOUT (FORMAT {form})") as copy:
                lines = b"".join(bytes(data) for data in copy).count(b"\n")
            assert lines == EVENTS + ("header" in form)
        with connection.cursor().copy("COPY (SELECT status, host FROM access) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int2", "text"])
            rows = list(copy.rows())
        plain = connection.execute("SELECT status, host FROM access").fetchall()
        assert sorted(rows) == sorted(plain)
        def copy_in():
            with connection.cursor().copy("COPY access FROM STDIN"):
                pass
        assert state_of(copy_in) == "25006"


def psycopg_errors(psycopg):
    with psycopg.connect(DSN, autocommit=True) as connection:
        for sql, state in [
            ("SELEC 1", "42601"), ("SELECT * FROM nothing", "42P01"),
            ("SELECT nothing FROM access", "42703"), ("SELECT nothing(1)", "42883"),
            ("SELECT 1 / 0", "22012"), ("SELECT 'x'::int", "22P02"),
            ("INSERT INTO access VALUES (1)", "25006"), ("CREATE TABLE a (b int)", "25006"),
            ("DROP TABLE access", "25006"), ("SET no_such = 1", "42704"),
            ("SET timezone = 'Mars/Base'", "22023"), ("FETCH 1 FROM nothing", "34000"),
            ("SELECT time + host FROM access", "42804"),
        ]:
            found = state_of(lambda: connection.execute(sql))
            assert found == state, (sql, found, state)
        connection.execute("SET statement_timeout = '100ms'")
        assert state_of(lambda: connection.execute(LONG)) == "57014"
        connection.execute("RESET statement_timeout")
        threading.Timer(0.3, connection.cancel).start()
        began = time.monotonic()
        assert state_of(lambda: connection.execute(LONG)) == "57014"
        assert time.monotonic() - began < 5
        assert connection.execute("SELECT 1").fetchone() == (1,)
    wrong = DSN.replace("dbname=logmill", "dbname=other")
    try:
        psycopg.connect(wrong)
        raise AssertionError("the database is unknown")
    except psycopg.OperationalError as error:
        assert 'database "other" does not exist' in str(error), error


def psycopg_transactions(psycopg):
    with psycopg.connect(DSN) as connection:
        connection.execute("SELECT 1")
        assert state_of(lambda: connection.execute("SELECT 1 / 0")) == "22012"
        assert state_of(lambda: connection.execute("SELECT 1")) == "25P02"
        connection.rollback()
        with connection.transaction():
            connection.execute("SELECT 1")
            try:
                with connection.transaction():
                    connection.execute("SELECT 1 / 0")
            except psycopg.errors.DivisionByZero:
                pass
            assert connection.execute("SELECT 2").fetchone() == (2,)
            connection.execute("SET LOCAL timezone = 'Asia/Kolkata'")
            assert connection.info.parameter_status("TimeZone") == "Asia/Kolkata"
        assert connection.info.parameter_status("TimeZone") == "UTC"


def psycopg_async(psycopg):
    async def act():
        async with await psycopg.AsyncConnection.connect(DSN) as connection:
            cursor = await connection.execute("SELECT count(*) FROM access")
            assert await cursor.fetchone() == (EVENTS,)
    asyncio.run(act())


def psycopg_zone(psycopg):
    with psycopg.connect(DSN + " options='-c timezone=Europe/Berlin'") as connection:
        (at,) = connection.execute("SELECT '2026-07-01 12:00:00'::timestamptz").fetchone()
        assert at == datetime.datetime(2026, 7, 1, 10, tzinfo=UTC), at


def sqlalchemy_reflection(sqlalchemy):
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://tester@{HOST}:{PORT}/logmill")
    inspector = sqlalchemy.inspect(engine)
    assert {"public", "stats", "system", "traffic"} <= set(inspector.get_schema_names())
    assert inspector.get_table_names() == ["access"]
    assert "hourly" in inspector.get_table_names(schema="stats")
    columns = {column["name"]: column for column in inspector.get_columns("access")}
    assert isinstance(columns["status"]["type"], sqlalchemy.SMALLINT)
    assert isinstance(columns["response_size"]["type"], sqlalchemy.BIGINT)
    assert columns["time"]["type"].timezone and not columns["time"]["nullable"]
    levels = {column["name"]: column for column in inspector.get_columns("hourly", schema="stats")}
    assert levels["hits"]["comment"] == "Number of events"
    assert inspector.get_pk_constraint("access")["constrained_columns"] == []
    assert inspector.get_foreign_keys("access") == [] and inspector.get_indexes("access") == []
    table = sqlalchemy.Table("access", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        status = table.c.status
        query = sqlalchemy.select(status, sqlalchemy.func.count()).where(table.c.method == "GET")
        rows = connection.execute(query.group_by(status).order_by(status)).all()
        assert rows and sum(row[1] for row in rows) <= EVENTS


def pg8000_values(pg8000):
    connection = pg8000.native.Connection("tester", host=HOST, port=PORT, database="logmill")
    assert connection.run("SELECT count(*) FROM access") == [[EVENTS]]
    assert connection.run("SELECT CAST(:a AS int) + 1", a=41) == [[42]]
    assert state_of(lambda: connection.run("SELECT nothing FROM access")) == "42703"
    connection.close()


def asyncpg_values(asyncpg):
    async def act():
        connection = await asyncpg.connect(host=HOST, port=PORT, user="tester", database="logmill")
        assert await connection.fetchval("SELECT count(*) FROM access") == EVENTS
        day = datetime.datetime(2000, 1, 1, tzinfo=UTC)
        found = await connection.fetchval("SELECT count(*) FROM access WHERE time > $1", day)
        assert 0 < found <= EVENTS
        async with connection.transaction():
            rows = 0
            async for _ in connection.cursor("SELECT host, status, time FROM access", prefetch=70):
                rows += 1
            assert rows == EVENTS
        await connection.close()
    asyncio.run(act())


def main():
    checks = [(name, check) for name, check in globals().items() if callable(check) and "_" in name]
    for name, check in checks:
        module = {"pg8000": "pg8000.native"}.get(name.split("_")[0], name.split("_")[0])
        if module not in ("psycopg", "sqlalchemy", "pg8000.native", "asyncpg"):
            continue
        try:
            imported = __import__(module)
        except ImportError:
            print(f"skipped {name}: {module} is not installed")
            continue
        try:
            check(imported)
            print(f"ok {name}", flush=True)
        except Exception as error:
            print(f"FAILED {name}: {type(error).__name__} {error}", flush=True)
            if "-v" in sys.argv:
                raise


main()
