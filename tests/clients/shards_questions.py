"""Seeded events, random questions about them, and a comparison of answers, for shards.py.

Every question has one answer, whatever the order in which rows are met: a limit stands behind an
order by all columns of the output, window functions are ordered by what identifies a row, and
fractions are multiples of a quarter, so that a sum of them is exact in any order. Columns that
differ by their nature (`_id` of a line, `_seq`) are not asked for.
"""

import datetime
import itertools
import json
import math

TIME, TEXT, INTEGER, FRACTION, MEAN, TRUTH, LIST = range(7)
UTC = datetime.timezone.utc
LEVELS = ["minutely", "hourly", "daily", "weekly", "monthly", "yearly"]
SITES = ["a.example", "b.example"]
# More than the 100 that a distinct count holds exactly.
HOSTS = ["10.1.0.9", "fe80::1", "crawler.example.net"] + [f"10.1.{n % 7}.{n}" for n in range(240)]
PATHS = ["/"] + [f"/p{n}" for n in range(240)] + [f"/shop/{n}/item" for n in range(60)]
USERS = ["-"] * 12 + ["anna", "bob", "Ærøskøbing"]
AGENTS = ["-", "curl/8.5.0", "Mozilla/5.0 (X11; Linux)", "Bot/2.1", "日本語", r"a \"b\" c"]
REFERRERS = ["-", "-", "https://example.com/", "https://search.example/?q=a%20b"]
METHODS = ["GET"] * 8 + ["POST", "HEAD"]
STATUSES = [200] * 12 + [204, 206, 301, 302, 304, 304, 403, 404, 404, 499, 500, 503]


class Events:
    """Lines and documents of a few days around the end of a month."""

    def __init__(self, draw):
        self.draw = draw
        self.begin = datetime.datetime(2024, 4, 29, tzinfo=UTC)
        self.days = draw.randint(3, 5)

    def of(self, values, hot=0.0):
        """Returns one of some values, the first ones more often."""
        if self.draw.random() < hot:
            return values[0]
        return values[min(int(self.draw.paretovariate(0.6)) - 1, 1 << 30) % len(values)]

    def time(self, share):
        """Returns a time near a share of all days, now and then one that is hours late."""
        seconds = share * self.days * 86400 + self.draw.uniform(-600, 600)
        if self.draw.random() < 0.02:
            seconds -= self.draw.uniform(0, 36000)
        return self.begin + datetime.timedelta(seconds=min(max(seconds, 0), self.days * 86400 - 1))

    def line(self, share, user=None, size=None, agent=None):
        draw, at = self.draw, self.time(share)
        hours = draw.choice([0, 0, 0, 2])
        at = (at + datetime.timedelta(hours=hours)).strftime(f"%d/%b/%Y:%H:%M:%S +0{hours}00")
        query = draw.choice(["", "", "", "?a=1", "?a=2&b=%20"])
        request = f"{draw.choice(METHODS)} {self.of(PATHS, 0.35)}{query} HTTP/1.1"
        if draw.random() < 0.01:
            request = draw.choice(["-", r"\x16\x03\x01", "GET /old", "garbage in quotes"])
        if size is None:
            size = draw.choice(["-", 0, draw.randrange(300), draw.randrange(100_000)])
            # A histogram counts what is beyond 2^40 apart.
            size = 2**41 if draw.random() < 0.0005 else size
        user, agent = user or draw.choice(USERS), agent or self.of(AGENTS)
        host, status, referrer = self.of(HOSTS), draw.choice(STATUSES), draw.choice(REFERRERS)
        return f'{host} - {user} [{at}] "{request}" {status} {size} "{referrer}" "{agent}"'

    def bad_line(self, share):
        line = self.line(share)
        cut = line[: self.draw.randrange(len(line))]
        return self.draw.choice(["", "garbage", line.replace("[", "[99/"), cut])

    def document(self, share):
        draw, at = self.draw, self.time(share)
        made = {"level": draw.choice(["info", "info", "warn", "error"]), "ok": draw.random() < 0.5}
        kind = draw.random()
        if kind < 0.6:
            made["time"] = at.isoformat()
        elif kind < 0.8:
            made["@timestamp"] = at.isoformat()
        elif kind < 0.95:
            made["ts"] = int(at.timestamp() * 1000)
        else:
            made["_id"] = {"$oid": f"{int(at.timestamp()):08x}{draw.getrandbits(64):016x}"}
        for name, values in (("host", HOSTS), ("site", SITES), ("path", PATHS)):
            if draw.random() < 0.95:
                made[name] = self.of(values, 0.3)
        made["service"] = self.of(["web", "db", "mail", "queue"])
        made["ms"] = draw.randrange(40_000) / 4
        made["n"] = draw.randrange(50)
        made["big"] = draw.choice([1, 5, 7, 2**53 + 1, -(2**53) - 1])
        made["user"] = {"id": draw.randrange(20), "name": draw.choice(["anna", "bob", None])}
        made["user"]["tags"] = draw.sample(["a", "b", "c"], draw.randrange(3))
        made[f"field_{int(share * 20)}"] = draw.choice([1, "one"])
        # Values of other types come once the columns have theirs.
        if share > 0.2 and draw.random() < 0.3:
            motley = [("n", 2.5), ("n", "three"), ("n", None), ("big", 2**70), ("big", 0.5)]
            motley += [("path", 7), ("host", 7.0), ("ok", "yes"), ("ms", []), ("ms", 3)]
            motley += [("deep", {"a": [1, {"b": draw.randrange(5)}]}), ("deep", {"a": {}})]
            motley += [("user", "x")]
            made.update([draw.choice(motley)])
        return json.dumps(made, ensure_ascii=False)

    def bad_document(self):
        return self.draw.choice(['{"level":', "text", "[1, 2]", '{"a.b":1,"a":{"b":2}}', ""])

    def requests(self, lines):
        """Returns requests as (stream, parameters, body), in the order in which they are sent."""
        made = []
        for stream, count in (("access", lines), ("docs", lines // 4)):
            sent = 0
            while sent < count:
                size = self.draw.choice([1, self.draw.randint(2, 40), self.draw.randint(40, 600)])
                size, share = min(size if sent else 100, count - sent), sent / count
                items = []
                for _ in range(size):
                    is_bad = sent and self.draw.random() < 0.01
                    if stream == "access":
                        items.append(self.bad_line(share) if is_bad else self.line(share))
                    else:
                        items.append(self.bad_document() if is_bad else self.document(share))
                site = self.draw.choice([None, None] + SITES) if stream == "access" else None
                parameters = {"site": site} if site else {}
                if stream == "docs":
                    parameters["format"] = "json"
                body = "".join(item + "\n" for item in items).encode()
                made.append((share, len(made), (stream, parameters, body)))
                sent += size
        # The first line makes the stream `access`, and so the names of its rollups.
        made.sort(key=lambda one: one[:2])
        return [request for _, _, request in made]


class Table:
    """A table, or a question in its place: its columns with their kinds, and what can be summed."""

    def __init__(self, sql, columns, sums=(), is_large=False, alias="a"):
        self.sql, self.columns, self.sums = sql, columns, list(sums)
        self.is_large, self.alias = is_large, alias

    def under(self, alias):
        return Table(self.sql, self.columns, self.sums, self.is_large, alias)

    @property
    def source(self):
        return f"{self.sql} AS {self.alias}"

    def named(self):
        return [(f"{self.alias}.{name}", kind) for name, kind in self.columns]

    def summed(self):
        return [f"{self.alias}.{name}" for name in self.sums]


class Joined:
    """Two tables side by side, in the place of one."""

    is_large = True

    def __init__(self, left, right):
        self.left, self.right = left, right
        self.source = None

    def named(self):
        return self.left.named() + self.right.named()

    def summed(self):
        return self.left.summed() + self.right.summed()


def texts(*names):
    return [(name, TEXT) for name in names]


def integers(*names):
    return [(name, INTEGER) for name in names]


# A column that is named twice is drawn twice as often.
ACCESS = Table(
    "access",
    [("time", TIME)]
    + integers("status", "response_size")
    + texts("host", "path", "path", "method", "site", '"user"', "query", "protocol", "request")
    + texts("referrer", "user_agent", "extra"),
    ["response_size", "response_size", "status"],
    is_large=True,
)
DOCS = Table(
    "docs",
    # Sums of `big` would depend on their order, as floats.
    [("time", TIME), ("n", FRACTION), ("ms", FRACTION), ("big", MEAN), ("ts", MEAN), ("ok", TRUTH)]
    + integers('"user.id"')
    + texts("level", "service", "host", "site", "path", '"user.name"', "time_source"),
    ["ms", "n", '"user.id"'],
    is_large=True,
)
# Values of documents that no column holds.
RESTS = [
    "attr(_rest, 'n')",
    "attr_type(_rest, 'big')",
    "attr(_rest, 'big')",
    "attr_type(_rest, 'path')",
    "attr_json(_rest, 'deep')",
    "attr(_rest, 'user.tags.0')",
    "coalesce(cast(n AS text), attr(_rest, 'n'))",
]
KEYS = {
    "stats": texts("site", "path"),
    "traffic": texts("site", "method") + integers("status"),
    "docs_traffic": [],
}


def level(rollup, name):
    columns, sums = [("bucket", TIME), ("bucket_end", TIME)] + KEYS[rollup], ["hits"]
    columns += integers("hits")
    if rollup != "docs_traffic":
        columns += integers("bytes")
        sums = ["hits", "bytes"]
        if name != "minutely":
            columns += integers("visitors")
        if name != "minutely" or rollup == "traffic":
            of_size = "count sum min max p50 p90 p99 overflow".split()
            columns += integers(*(f"size_{of}" for of in of_size)) + [("size_mean", MEAN)]
    return Table(f"{rollup}.{name}", columns, sums, name in ("minutely", "hourly"))


def documents(rollup, of):
    columns = [("_id", TEXT), ("metadata['date']", TIME)]
    columns += [(f"metadata['{key}']", kind) for key, kind in KEYS[rollup]]
    members = ["monthly", "daily['1']", "daily['30']"]
    if of == "daily":
        members = ["daily", "hourly['0']", "hourly['13']", "minute['7']['59']"]
    return Table(f"{rollup}.{of}_documents", columns + integers(*members), members)


LEVEL_TABLES = [level(rollup, name) for rollup in KEYS for name in LEVELS]
DOCUMENT_TABLES = [documents(rollup, of) for rollup in KEYS for of in ("daily", "monthly")]
DIRECTIONS = ["", "", " DESC", " DESC NULLS LAST", " ASC NULLS FIRST"]


def listed(expressions):
    return ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(expressions))


def by_places(count):
    return " GROUP BY " + ", ".join(str(n + 1) for n in range(count)) if count else ""


def whole_tables():
    """Returns questions for all cells of all levels, and the counts of each value of a stream."""
    made = []
    for table in LEVEL_TABLES + DOCUMENT_TABLES:
        made.append(f"SELECT {listed([name for name, _ in table.columns])} FROM {table.sql}")
    for table in (ACCESS, DOCS):
        names = sorted({name for name, _ in table.columns}) + (RESTS if table is DOCS else [])
        counts = "SELECT {} AS c0, count(*) AS c1 FROM {} GROUP BY 1"
        made += [counts.format(name, table.sql) for name in names]
    return [(sql, False) for sql in made]


class Questions:
    """A grammar of questions, and the constants that it draws from.

    A question is its text, and whether its rows have an order. The kinds of a question's columns
    decide about questions of its answer: a MEAN is not summed, a LIST not ordered.
    """

    def __init__(self, draw, events):
        self.draw, self.pick = draw, draw.choice
        self.words = {
            "host": HOSTS[:20],
            "path": PATHS[:30] + PATHS[-5:],
            "site": SITES,
            "user": USERS[-3:],
            "method": METHODS[-4:],
            "user_agent": AGENTS,
            "referrer": REFERRERS[2:],
            "level": ["info", "warn"],
            "service": ["web", "db"],
            "name": ["anna", "bob"],
            "protocol": ["HTTP/1.1"],
            "query": ["a=1"],
            "time_source": ["objectid"],
        }
        hours = range(-2, 24 * events.days + 3)
        hours = [events.begin + datetime.timedelta(hours=hour) for hour in hours]
        self.times = [hour.strftime("%Y-%m-%dT%H:%M:%SZ") for hour in hours]

    def once_in(self, times):
        return self.draw.randrange(times) == 0

    def word(self, column):
        # As `a."user.name"` and `a.metadata['path']` have it.
        name = column.rstrip("\"']").replace("'", ".").replace('"', ".").rsplit(".", 1)[-1]
        words = ["", "/p"] if self.once_in(10) else self.words.get(name, ["nowhere"])
        return "'" + self.pick(words).replace("'", "''") + "'"

    def stamp(self):
        time = self.pick(self.times)
        if self.once_in(4):
            time = time[:14] + f"{self.draw.randrange(60):02}:{self.draw.randrange(60):02}Z"
        return f"TIMESTAMP '{time}'"

    def number(self, column):
        if "status" in column:
            return str(self.pick([200, 204, 301, 304, 400, 404, 500]))
        few = [-1, 2**40, 2**53 + 1] if self.once_in(6) else [0, 1, 2, 5, 20, 200, 1000, 50_000]
        return str(self.pick(few))

    def column(self, table, kind):
        columns = [name for name, of in table.named() if of == kind]
        return self.pick(columns) if columns else None

    def expression(self, table):
        """Returns a key of groups, or a column of rows, and its kind."""
        name, kind = self.pick(table.named())
        if self.draw.random() < 0.35:
            time = self.column(table, TIME)
            name, kind = (time, TIME) if time else (name, kind)
        if kind == TIME and not self.once_in(10):
            return self.of_time(name)
        if kind == TEXT and self.once_in(3):
            forms = ["coalesce({}, '-')", "left({}, 3)", "upper({})", "path_prefix({}, 1)"]
            forms += ["split_part({}, '/', 2)"]
            forms += [f"CASE WHEN {self.condition(table, 0)} THEN {{}} END"]
            return self.pick(forms).replace("{}", name), TEXT
        if kind == INTEGER and "status" in name and self.once_in(2):
            return f"{name} / 100", INTEGER
        if kind == INTEGER and self.once_in(3):
            forms = [(f"{name} % 10", INTEGER), (f"coalesce({name}, -1)", INTEGER)]
            return self.pick(forms + [(f"({name} > 100)", TRUTH)])
        return name, kind

    def of_time(self, name):
        unit = self.pick(["minute", "hour", "hour", "hour", "day", "day", "week", "month"])
        part = self.pick(["hour", "dow", "day", "month"])
        width = self.pick(["5 minutes", "1 hour", "6 hours", "1 day", "1 week"])
        zone = self.pick(["UTC", "Europe/Berlin", "Asia/Kolkata"])
        forms = [(f"date_trunc('{unit}', {name})", TIME)] * 6
        forms += [(f"time_bucket('{width}', {name}, '{zone}')", TIME)]
        forms += [(f"date_bin(INTERVAL '{width}', {name})", TIME)]
        forms += [(f"CAST(date_part('{part}', {name}) AS BIGINT)", INTEGER)]
        return self.pick(forms + [(f"to_char({name}, '%H')", TEXT)])

    def term(self, table):
        name, kind = self.pick(table.named())
        compared, no = self.pick(["=", "<>", "<", "<=", ">", ">="]), self.pick(["", "", "NOT "])
        if self.once_in(7):
            return f"{name} IS {no}NULL"
        if kind == TRUTH:
            return self.pick([name, f"NOT {name}", f"{name} IS {no}TRUE"])
        if kind == TIME:
            first, last = sorted([self.stamp(), self.stamp()])
            forms = [f"{name} >= {first} AND {name} < {last}"] * 2
            forms += [f"{name} {no}BETWEEN {first} AND {last}", f"{name} {compared} {first}"]
            forms += [f"date_trunc('day', {name}) = date_trunc('day', {first})"]
            return self.pick(forms)
        if kind == TEXT:
            words = ", ".join(self.word(name) for _ in range(self.draw.randint(1, 4)))
            like = self.pick(["/p%", "%1%", "%a%", "_p_", "10.%", "%", "G%", "%ø%"])
            forms = [f"{name} = {self.word(name)}"] * 2 + [f"{name} {no}IN ({words})"]
            forms += [f"{name} {no}LIKE '{like}'", f"{name} {compared} {self.word(name)}"]
            forms += [f"{name} IS {no}DISTINCT FROM {self.word(name)}", f"{name} ~ '[0-4]$'"]
            return self.pick(forms)
        few = sorted([self.number(name) for _ in range(3)], key=int)
        forms = [f"{name} {compared} {few[1]}"] * 2 + [f"{name} {no}IN ({', '.join(few)})"]
        return self.pick(forms + [f"{name} {no}BETWEEN {few[0]} AND {few[2]}"])

    def condition(self, table, depth=2):
        if depth and self.once_in(2):
            left, right = self.condition(table, depth - 1), self.condition(table, depth - 1)
            forms = [f"{left} AND {right}", f"({left} OR {right})", f"NOT ({left} AND {right})"]
            return self.pick(forms)
        return f"({self.term(table)})"

    def by_question(self, table):
        """Returns a condition with a question in it."""
        no, inner = self.pick(["", "", "NOT "]), ACCESS.under("z")
        condition, z = self.condition(inner, 1), inner.source
        names = [name for name, _ in table.named() if "path" in name or "host" in name]
        name = self.pick(names) if names else self.word("path")
        key = "host" if "host" in name else "path"
        number = self.column(table, INTEGER) or "200"
        having = f"GROUP BY 1 HAVING count(*) > {self.draw.randrange(400)}"
        return self.pick([
            f"{name} {no}IN (SELECT z.{key} FROM {z} WHERE z.{key} <> '' AND {condition})",
            f"{name} IN (SELECT z.{key} FROM {z} {having})",
            f"{no}EXISTS (SELECT 1 FROM {z} WHERE z.{key} = {name} AND {condition})",
            f"{number} >= (SELECT avg(z.status) FROM {z} WHERE {condition})",
            f"{number} < (SELECT max(z.response_size) FROM {z} WHERE {condition})",
        ])

    def where(self, table):
        terms, time = [], self.column(table, TIME)
        if time and self.once_in(2):
            first, last = sorted([self.stamp(), self.stamp()])
            terms.append(f"{time} >= {first} AND {time} < {last}")
        if self.draw.random() < 0.6:
            terms.append(self.condition(table))
        if self.once_in(12):
            terms.append(self.by_question(table))
        return f" WHERE {' AND '.join(terms)}" if terms else ""

    def aggregate(self, table):
        name, kind = self.pick(table.named())
        condition = self.condition(table, 1)
        made = [("count(*)", INTEGER)] * 6
        made += [(f"count({name})", INTEGER), (f"count(DISTINCT {name})", INTEGER)]
        made += [(f"{of}({name})", kind) for of in ("min", "max") if kind != TRUTH]
        made += [(f"sum(CASE WHEN {condition} THEN 1 ELSE 0 END)", INTEGER)]
        made += [(f"bool_or({condition})", TRUTH)]
        if self.once_in(4):
            made += [(f"array_agg(DISTINCT {name} ORDER BY {name})", LIST)]
        if table.summed():
            summed = self.pick(table.summed())
            made += [(f"sum({summed})", FRACTION)] * 5 + [(f"avg({summed})", MEAN)] * 2
            made += [(f"median({summed})", MEAN), (f"max({summed})", FRACTION)]
        sql, kind = self.pick(made)
        if self.once_in(5) and kind != LIST:
            sql += f" FILTER (WHERE {self.condition(table, 1)})"
        return sql, kind

    def having(self, table):
        forms = [f"count(*) > {self.pick([1, 2, 10, 100])}"]
        forms += [f"count(DISTINCT {self.pick(table.named())[0]}) >= 2"]
        forms += [f"sum({self.pick(table.summed())}) > 1000"] if table.summed() else []
        time = self.column(table, TIME)
        forms += [f"max({time}) >= {self.stamp()}"] if time else []
        return f" HAVING {self.pick(forms)}"

    def grouped(self, table, least=0):
        """Returns a question without an order, the kinds of its columns, and the number of keys."""
        count = max(least, self.pick([0, 1, 1, 1, 2, 2, 3]))
        columns = [self.expression(table) for _ in range(count)]
        columns += [self.aggregate(table) for _ in range(self.draw.randint(1, 3))]
        sql = f"SELECT {listed([one for one, _ in columns])} FROM {table.source}"
        sql += self.where(table) + by_places(count)
        if count and self.once_in(4):
            sql += self.having(table)
        return sql, [kind for _, kind in columns], count

    def ordered(self, sql, kinds, is_large=False):
        """Adds an order by all columns and a limit, or neither if there are not many rows."""
        if LIST in kinds or not (is_large or self.once_in(2)):
            return sql, False
        places = list(range(1, len(kinds) + 1))
        self.draw.shuffle(places)
        sql += " ORDER BY " + ", ".join(f"{n}{self.pick(DIRECTIONS)}" for n in places)
        if is_large or self.draw.random() < 0.7:
            sql += f" LIMIT {self.pick([1, 3, 10, 50, 200])}"
            sql += f" OFFSET {self.draw.randrange(20)}" if self.once_in(3) else ""
        return sql, True

    def table(self):
        level, document = self.pick(LEVEL_TABLES), self.pick(DOCUMENT_TABLES)
        return self.pick([ACCESS] * 9 + [DOCS] * 3 + [level] * 6 + [document] * 2)

    def of_groups(self, table):
        sql, kinds, keys = self.grouped(table)
        return self.ordered(sql, kinds, is_large=keys > 1 and self.once_in(2))

    def of_rows(self, table):
        columns = [self.expression(table) for _ in range(self.draw.randint(1, 5))]
        sql = f"SELECT {self.pick(['', '', 'DISTINCT '])}{listed([one for one, _ in columns])}"
        sql += f" FROM {table.source}{self.where(table)}"
        return self.ordered(sql, [kind for _, kind in columns], table.is_large)

    def of_answer(self):
        """Returns a question about the answer of another one."""
        sql, kinds, _ = self.grouped(self.table(), least=1)
        columns = [(f"c{n}", kind) for n, kind in enumerate(kinds) if kind != LIST]
        sums = [name for name, kind in columns[1:] if kind in (INTEGER, FRACTION)]
        is_before = self.once_in(2)
        inner = Table("q" if is_before else f"({sql})", columns, sums)
        outer, is_ordered = self.pick([self.of_groups, self.of_rows])(inner)
        return (f"WITH q AS ({sql}) {outer}" if is_before else outer), is_ordered

    def joined(self):
        hourly, daily = level("stats", "hourly"), level("stats", "daily")
        statuses, docs = level("traffic", "hourly"), level("docs_traffic", "hourly")
        condition = self.condition(ACCESS.under("z"), 1)
        counts = Table(
            "(SELECT date_trunc('hour', z.time) AS bucket, z.site, z.path, count(*) AS n, "
            f"sum(z.response_size) AS size FROM access AS z WHERE {condition} GROUP BY 1, 2, 3)",
            [("bucket", TIME)] + texts("site", "path") + integers("n", "size"),
            ["n", "size"],
        )
        day, path = "date_trunc('day', a.{}) = b.bucket", "a.path = b.path"
        minute = "date_trunc('minute', a.time) = date_trunc('minute', b.time)"
        same_site, status = "(a.site IS NOT DISTINCT FROM b.site)", "a.status = b.status"
        next_day = "a.bucket = b.bucket + INTERVAL '1 day'"
        left, right, *on = self.pick([
            (hourly, daily, day.format("bucket"), path),
            (ACCESS, daily, day.format("time"), path),
            (hourly, counts, "a.bucket = b.bucket", path, same_site),
            (daily, daily, next_day, path, "a.site = b.site"),
            (hourly, hourly, "a.bucket = b.bucket", path, "a.site < b.site"),
            (statuses, statuses, "a.bucket = b.bucket", status, "a.method <> b.method"),
            (docs, docs, "a.bucket = b.bucket"),
            (docs, statuses, "a.bucket = b.bucket"),
            (ACCESS, ACCESS, "a.time = b.time", "a.host = b.host"),
            (ACCESS, DOCS, minute, "a.host = b.host"),
        ])
        both = Joined(left.under("a"), right.under("b"))
        on += [self.condition(both, 0)] if self.once_in(3) else []
        how = self.pick(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        both.source = f"{both.left.source} {how} {both.right.source} ON {' AND '.join(on)}"
        return self.of_rows(both) if self.once_in(3) else self.of_groups(both)

    def united(self):
        """Returns the rows of two questions, whose columns are of the same types."""
        kinds = self.pick([[TIME], [TEXT], [TEXT, INTEGER], [TIME, TEXT, INTEGER]])
        casts, sides = {TIME: "{}", TEXT: "CAST({} AS TEXT)", INTEGER: "CAST({} AS BIGINT)"}, []
        for _ in range(2):
            table = self.table()
            columns = [casts[kind].format(self.column(table, kind) or "NULL") for kind in kinds]
            sides.append(f"SELECT {listed(columns)} FROM {table.source}{self.where(table)}")
        how = self.pick(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
        sql = f" {how} ".join(sides)
        if self.once_in(2):
            columns = [(f"c{n}", kind) for n, kind in enumerate(kinds)]
            return self.of_groups(Table(f"({sql})", columns))
        return self.ordered(sql, kinds, is_large=True)

    def windowed(self):
        """Returns a window function over groups, which are ordered by all of their keys."""
        sql, kinds, count = self.grouped(self.table(), least=self.pick([1, 2]))
        keys = [f"q.c{n}" for n in range(count)]
        order = "ORDER BY " + ", ".join(key + self.pick(["", " DESC"]) for key in keys)
        summed = [n for n in range(count, len(kinds)) if kinds[n] in (INTEGER, FRACTION)]
        functions = ["row_number()", "rank()", f"lag({keys[-1]})", "count(*)"]
        functions += [f"{of}(q.c{n})" for n in summed for of in ("sum", "max", "first_value")]
        function = self.pick(functions)
        if function.startswith(("sum", "max")) and self.once_in(2):
            order += " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
        if count > 1 and self.once_in(2):
            order = f"PARTITION BY {keys[0]} {order}"
        columns = listed(keys + [f"{function} OVER ({order})"])
        sql, kinds = f"SELECT {columns} FROM ({sql}) AS q", kinds[:count] + [MEAN]
        return self.ordered(sql, kinds, is_large=count > 1)

    def merged_states(self):
        table = level(self.pick(["stats", "traffic"]), self.pick(LEVELS[1:]))
        columns = [self.expression(table) for _ in range(self.draw.randrange(3))]
        count = len(columns)
        states = [f"hist_{of}(hist_merge(a.size))" for of in "count sum min max overflow".split()]
        states += [f"hist_quantile(hist_merge(a.size), {share})" for share in (0.5, 0.9, 0.99)]
        states += ["distinct_count(distinct_merge(a.visitors_state))"] * 3
        columns += [(state, MEAN) for state in self.draw.sample(states, 2)]
        sql = f"SELECT {listed([one for one, _ in columns])} FROM {table.source}"
        sql += self.where(table) + by_places(count)
        return self.ordered(sql, [kind for _, kind in columns])

    def question(self):
        form = self.draw.randrange(24)
        if form < 10:
            sql, is_ordered = self.of_groups(self.table())
        elif form < 14:
            sql, is_ordered = self.of_rows(self.table())
        else:
            forms = [self.of_answer] * 2 + [self.joined] * 3 + [self.united] * 2
            sql, is_ordered = self.pick(forms + [self.windowed] * 2 + [self.merged_states])()
        if self.once_in(10) and sql.startswith("SELECT "):
            sql = "SELECT /*+ no_rollup */ " + sql.removeprefix("SELECT ")
        return sql, is_ordered


def alike(ours, theirs):
    """Returns whether values are equal, fractions to nine digits."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        same = ours.keys() == theirs.keys()
        return same and all(alike(value, theirs[name]) for name, value in ours.items())
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    return type(ours) is type(theirs) and ours == theirs


def place(value):
    """Returns the place of a value in the order of its column, of whatever type that is."""
    if value is None:
        return 0, 0
    if isinstance(value, (int, float)):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, json.dumps(value, sort_keys=True))


def difference(ours, theirs, is_ordered):
    """Describes the first difference between two answers; nothing if there is none."""
    columns = ours["columns"]
    if columns != theirs["columns"]:
        return f"columns {columns}\n  of the cluster: {theirs['columns']}"
    left, right = ours["rows"], theirs["rows"]
    if not is_ordered:
        # Fractions come last: their last digits must not decide about the order of other values.
        columns = sorted(columns, key=lambda column: column["type"] == "double precision")
        names = [column["name"] for column in columns]
        left, right = (sorted(rows, key=lambda row: [place(row[name]) for name in names])
                       for rows in (left, right))
    for nth, (mine, their) in enumerate(itertools.zip_longest(left, right)):
        if not alike(mine, their):
            rows = f"{len(left)} rows, of the cluster {len(right)}; row {nth}: {json.dumps(mine)}"
            return f"{rows}\n  of the cluster: {json.dumps(their)}"
    return None
