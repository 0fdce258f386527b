"""Compares answers of Loki's read API with an evaluation of its own.

    python3 loki.py URL STREAM KIND [SEED [COUNT]]

KIND is `access` (an access log) or `app` (documents with the columns level, line, took, size). The
events come from `/api/v1/sql`; every query below stands beside a Python expression that computes
its answer from them. COUNT more are drawn from the grammar below. Nothing of the program's LogQL
takes part. Python 3.9, standard library only.

Rules of the language (Grafana Loki's documentation, "Log queries" and "Metric queries"): a log
query reads [start, end), the window of a range aggregation at t is (t - range, t], regular
expressions of labels match the whole value and those of line filters a part of the line.
"""

import collections
import itertools
import json
import math
import random
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

SECOND = 1_000_000_000
LIMIT = 5000
LABELS = ("host", "level", "site")


def fetch(url, headers=None, body=None):
    request = urllib.request.Request(url, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{url}: {error.code} {error.read().decode()}")


def nanoseconds(text):
    """Returns an RFC 3339 time in UTC as nanoseconds since 1970."""
    date, _, rest = text.rstrip("Z").partition("T")
    clock, _, fraction = rest.partition(".")
    year, month, day = map(int, date.split("-"))
    hour, minute, second = map(int, clock.split(":"))
    # Days since 1970 of the proleptic Gregorian calendar.
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return seconds * SECOND + int((fraction + "0" * 9)[:9])


def plain(value):
    """Returns the text of a JSON value as a label has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


class Entry:
    """A line with its labels: of the stream, metadata, and those that stages made."""

    def __init__(self, stream, row):
        self.ns = nanoseconds(row["time"])
        self.stream = {"stream": stream}
        self.meta = {}
        self.parsed = {}
        shown = {}
        for name, value in row.items():
            if value is None or name in ("_id", "_seq", "time"):
                continue
            if name == "_rest":
                shown.update(value)
                continue
            shown[name] = value
            text = plain(value)
            if text == "" or name == "line":
                continue
            (self.stream if name in LABELS else self.meta)[name] = text
        if "status" in row and isinstance(row["status"], int):
            self.stream["status_class"] = f"{row['status'] // 100}xx"
        self.meta["detected_level"] = self.stream.get("level", "unknown")
        if "line" in row:
            self.line = row["line"] or ""
        else:
            self.line = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)

    def copy(self):
        other = Entry.__new__(Entry)
        other.ns, other.line = self.ns, self.line
        other.stream, other.meta, other.parsed = dict(self.stream), dict(self.meta), dict(self.parsed)
        return other

    def get(self, name):
        for kind in (self.parsed, self.meta, self.stream):
            if name in kind:
                return kind[name]
        return ""

    def remove(self, name):
        for kind in (self.parsed, self.meta, self.stream):
            kind.pop(name, None)

    def extract(self, name, text):
        taken = self.stream.get(name, self.meta.get(name))
        if taken is None:
            self.parsed[name] = text
        elif taken != text:
            self.parsed[name + "_extracted"] = text
        if text == "":
            self.parsed.pop(name, None)
            self.parsed.pop(name + "_extracted", None)

    def all(self):
        return {**self.stream, **self.meta, **self.parsed}


# Stages: each returns whether the entry passes.


def contains(*texts):
    return lambda e: any(text in e.line for text in texts)


def lacks(*texts):
    return lambda e: not any(text in e.line for text in texts)


def matches(pattern):
    return lambda e: re.search(pattern, e.line) is not None


def label(name, test):
    return lambda e: test(e.get(name))


def whole(pattern):
    return lambda text: re.fullmatch(pattern, text, re.DOTALL) is not None


def number(name, test):
    def stage(e):
        text = e.get(name)
        return text != "" and test(float(text))

    return stage


def parse_json(e):
    def fields(prefix, value):
        for name, inside in value.items():
            name = prefix + re.sub("[^a-zA-Z0-9_]", "_", name)
            if isinstance(inside, dict):
                fields(name + "_", inside)
            elif inside is not None and not isinstance(inside, list):
                e.extract(name, plain(inside))

    try:
        value = json.loads(e.line)
    except ValueError:
        value = None
    if isinstance(value, dict):
        fields("", value)
    else:
        e.parsed["__error__"] = "JSONParserErr"
    return True


def parse_logfmt(e):
    pair = r'([^\s=]+)=("(?:[^"\\]|\\.)*"|[^\s"]*)'
    for name, text in re.findall(pair, e.line):
        if text.startswith('"'):
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        if text:
            e.extract(re.sub("[^a-zA-Z0-9_]", "_", name), text)
    return True


def groups(pattern):
    def stage(e):
        found = re.search(pattern, e.line)
        for name, text in (found.groupdict() if found else {}).items():
            e.extract(name, text)
        return True

    return stage


def line_format(make):
    def stage(e):
        e.line = make(e)
        return True

    return stage


def label_format(name, make):
    def stage(e):
        text = make(e)
        e.remove(name)
        if text:
            e.parsed[name] = text
        return True

    return stage


def rename(name, source):
    def stage(e):
        text = e.get(source)
        if text:
            e.remove(source)
            e.remove(name)
            e.parsed[name] = text
        return True

    return stage


def drop(*names):
    def stage(e):
        for name in names:
            e.remove(name)
        return True

    return stage


class Data:
    def __init__(self, url, stream):
        headers = {"Accept": "application/x-ndjson"}
        body = f'SELECT * FROM "{stream}" ORDER BY time, _seq'.encode()
        rows = fetch(url + "/api/v1/sql", headers, body).splitlines()
        self.url, self.stream = url, stream
        self.entries = [Entry(stream, json.loads(row)) for row in rows]
        self.first = min(e.ns for e in self.entries)
        self.last = max(e.ns for e in self.entries)
        step = max(1, -(-(self.last - self.first) // SECOND // 37))
        self.step = step
        # A start on a whole second: events of access logs lie on boundaries of windows.
        self.start = self.first - self.first % SECOND + 2 * SECOND
        self.count = (self.last - self.start) // (step * SECOND) + 2

    def passing(self, stages):
        for entry in self.entries:
            entry = entry.copy()
            if all(stage(entry) for stage in stages):
                yield entry

    def over(self, function, seconds, *stages, unwrap=None, labels=Entry.all, offset=0, q=None):
        """Returns {labels: [value or None at each step]}."""
        windows = {}
        step, reach = self.step * SECOND, round(seconds * SECOND)
        for e in self.passing(stages):
            value = len(e.line.encode()) if function.startswith("bytes") else 1
            if unwrap:
                text = e.get(unwrap)
                if text == "":
                    continue
                value = float(text)
                e.remove(unwrap)
            # t - reach < e.ns <= t
            since = e.ns + offset * SECOND - self.start
            nth = max(0, -(-since // step))
            while nth < self.count and self.start + nth * step - reach - offset * SECOND < e.ns:
                key = frozenset((k, v) for k, v in labels(e).items() if k != "__error__")
                steps = windows.setdefault(key, [[] for _ in range(self.count)])
                steps[nth].append((e.ns, value))
                nth += 1
        return {
            key: [reduced(function, seconds, [v for _, v in window], unwrap, q) for window in steps]
            for key, steps in windows.items()
        }


def reduced(function, seconds, values, unwrap, q):
    if not values:
        return None
    return {
        "count": lambda: float(len(values)),
        "rate": lambda: (math.fsum(values) if unwrap else len(values)) / seconds,
        "bytes": lambda: float(sum(values)),
        "bytes_rate": lambda: sum(values) / seconds,
        "sum": lambda: math.fsum(values),
        "avg": lambda: math.fsum(values) / len(values),
        "min": lambda: min(values),
        "max": lambda: max(values),
        "first": lambda: values[0],
        "last": lambda: values[-1],
        "quantile": lambda: quantile(sorted(values), q),
    }[function]()


def quantile(values, q):
    rank = q * (len(values) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(values) - 1)
    return values[low] * (1 - (rank - low)) + values[high] * (rank - low)


def series_labels(*named):
    """Labels of a series without a sum around it: of the stream and of stages, and named metadata."""

    def labels(e):
        return {**{n: e.meta[n] for n in named if n in e.meta}, **e.stream, **e.parsed}

    return labels


def only(*names):
    return lambda e: {n: e.get(n) for n in names if e.get(n)}


def grouped(function, series, by=None, without=None):
    found = {}
    for key, points in series.items():
        if without is not None:
            key = frozenset((k, v) for k, v in key if k not in without)
        else:
            key = frozenset((k, v) for k, v in key if k in (by or ()))
        found.setdefault(key, []).append(points)
    reduce = {
        "sum": math.fsum,
        "avg": lambda values: math.fsum(values) / len(values),
        "min": min,
        "max": max,
        "count": lambda values: float(len(values)),
    }[function]
    result = {}
    for key, all_points in found.items():
        columns = zip(*all_points)
        present = [[v for v in column if v is not None] for column in columns]
        result[key] = [reduce(values) if values else None for values in present]
    return result


def combined(operate, left, right):
    def both(a, b):
        return None if a is None or b is None else operate(a, b)

    if not isinstance(right, dict):
        return {k: [both(a, right) for a in points] for k, points in left.items()}
    shared = left.keys() & right.keys()
    return {k: [both(a, b) for a, b in zip(left[k], right[k])] for k in shared}


def top(count, series, least=False):
    result = {key: [None] * len(points) for key, points in series.items()}
    for nth in range(max(map(len, series.values()), default=0)):
        ranked = [(p[nth], sorted(k), k) for k, p in series.items() if p[nth] is not None]
        ranked.sort(key=lambda one: (one[0] if least else -one[0], one[1]))
        for value, _, key in ranked[:count]:
            result[key][nth] = value
    return result


def metric_queries(d):
    """Returns (text, series) for any kind of stream."""
    s, r, w, name = d.step, f"{d.step}s", f"{3 * d.step}s", d.stream
    sel = '{stream="' + name + '"}'
    over, wide = d.over, 3 * s
    yield f"sum(count_over_time({sel}[{r}]))", grouped("sum", over("count", s))
    yield f"sum(count_over_time({sel}[{w}]))", grouped("sum", over("count", wide))
    yield f"sum(count_over_time({sel}[1s]))", grouped("sum", over("count", 1))
    yield (
        f"sum(count_over_time({sel}[{r}] offset {w}))",
        grouped("sum", over("count", s, offset=wide)),
    )
    yield (
        f"sum by (level, detected_level) (count_over_time({sel} | drop __error__ [{r}]))",
        grouped("sum", over("count", s), by=["level", "detected_level"]),
    )
    yield (
        f"sum without (host, site) (count_over_time({sel}[{r}]))",
        grouped("sum", over("count", s, labels=series_labels()), without=["host", "site"]),
    )
    yield f"max(rate({sel}[{w}]))", grouped("max", over("rate", wide, labels=series_labels()))
    yield (
        f"avg by (status_class) (rate({sel}[{w}]))",
        grouped("avg", over("rate", wide, labels=series_labels()), by=["status_class"]),
    )
    yield (
        f"min by (host) (count_over_time({sel}[{r}]))",
        grouped("min", over("count", s, labels=series_labels()), by=["host"]),
    )
    yield (
        f"count(count_over_time({sel}[{r}]))",
        grouped("count", over("count", s, labels=series_labels())),
    )
    yield f"sum(bytes_over_time({sel}[{r}]))", grouped("sum", over("bytes", s))
    yield (
        f"sum by (host) (bytes_rate({sel}[{w}]))",
        grouped("sum", over("bytes_rate", wide), by=["host"]),
    )
    yield (
        f'sum(count_over_time({sel} |= "a" != "zz" |~ "[0-9]+" !~ "^nothing" [{r}]))',
        grouped(
            "sum", over("count", s, contains("a"), lacks("zz"), matches("[0-9]+"))
        ),
    )
    yield (
        f"topk(2, sum by (host) (count_over_time({sel}[{w}])))",
        top(2, grouped("sum", over("count", wide), by=["host"])),
    )
    yield (
        f"bottomk(1, sum by (host) (count_over_time({sel}[{w}])))",
        top(1, grouped("sum", over("count", wide), by=["host"]), least=True),
    )
    total = grouped("sum", over("count", s))
    yield f"sum(count_over_time({sel}[{r}])) * 2 + 1", combined(lambda a, b: a * 2 + 1, total, 0)
    yield (
        f"sum(count_over_time({sel}[{r}])) > 3",
        combined(lambda a, b: a if a > b else None, total, 3),
    )
    yield (
        f"sum(count_over_time({sel}[{r}])) > bool 3",
        combined(lambda a, b: float(a > b), total, 3),
    )
    hosts = grouped("sum", over("count", s), by=["host"])
    some = grouped("sum", over("count", s, contains("1")), by=["host"])
    yield (
        f'sum by (host) (count_over_time({sel} |= "1" [{r}])) / '
        f"sum by (host) (count_over_time({sel}[{r}]))",
        combined(lambda a, b: a / b, some, hosts),
    )


def access_queries(d):
    """Returns (text, series) for an access log."""
    s, r, w, name = d.step, f"{d.step}s", f"{3 * d.step}s", d.stream
    sel = '{stream="' + name + '"}'
    over, wide = d.over, 3 * s
    errors = number("status", lambda v: v >= 400)
    yield (
        f"sum by (status) (count_over_time({sel} | status >= 400 [{r}]))",
        grouped("sum", over("count", s, errors), by=["status"]),
    )
    ok = label("status_class", whole("2.*"))
    yield (
        f'sum by (method) (count_over_time({{stream="{name}",status_class=~"2.*"}}[{r}]))',
        grouped("sum", over("count", s, ok), by=["method"]),
    )
    yield (
        f'sum(count_over_time({sel} | method!="GET" or status = 404 [{r}]))',
        grouped(
            "sum", over("count", s, lambda e: e.get("method") != "GET" or e.get("status") == "404")
        ),
    )
    yield (
        f"sum by (status) (count_over_time({sel} | json | status < 300 [{r}]))",
        grouped(
            "sum", over("count", s, parse_json, number("status", lambda v: v < 300)), by=["status"]
        ),
    )
    size = dict(unwrap="response_size")
    for q in (0.5, 0.99):
        yield (
            f"quantile_over_time({q}, {sel} | unwrap response_size [{w}]) by (status_class)",
            over("quantile", wide, labels=only("status_class"), q=q, **size),
        )
    for function in ("avg", "min", "max"):
        yield (
            f"{function}_over_time({sel} | unwrap response_size [{r}]) by (method)",
            over(function, s, labels=only("method"), **size),
        )
    yield (
        f"sum by (host) (sum_over_time({sel} | unwrap response_size [{r}]))",
        grouped("sum", over("sum", s, **size), by=["host"]),
    )
    yield f"sum(rate({sel} | unwrap response_size [{w}]))", grouped("sum", over("rate", wide, **size))
    yield (
        f'topk(3, sum by (a) (count_over_time({sel} | line_format "{{{{.path}}}}" '
        f'| regexp "^/(?P<a>[^/]*)" [{w}])))',
        top(
            3,
            grouped(
                "sum",
                over("count", wide, line_format(lambda e: e.get("path")), groups("^/(?P<a>[^/]*)")),
                by=["a"],
            ),
        ),
    )


def app_queries(d):
    """Returns (text, series) for the documents of the test."""
    s, r, w, name = d.step, f"{d.step}s", f"{3 * d.step}s", d.stream
    sel = '{stream="' + name + '"}'
    over, wide = d.over, 3 * s
    yield (
        f'sum by (method) (count_over_time({sel} | logfmt | method=~"GET|PUT" [{r}]))',
        grouped(
            "sum", over("count", s, parse_logfmt, label("method", whole("GET|PUT"))), by=["method"]
        ),
    )
    yield (
        f"sum by (user_name) (count_over_time({sel} | json | drop __error__ [{r}]))",
        grouped("sum", over("count", s, parse_json), by=["user_name"]),
    )
    yield (
        f'sum by (user_name) (count_over_time({sel} | json | __error__="" | code >= 2 [{r}]))',
        grouped(
            "sum",
            over(
                "count", s, parse_json, label("__error__", lambda t: t == ""),
                number("code", lambda v: v >= 2),
            ),
            by=["user_name"],
        ),
    )
    yield (
        f'sum by (verb) (count_over_time({sel} |= "method=" '
        f'| pattern "method=<verb> path=<_>" [{r}]))',
        grouped(
            "sum",
            over("count", s, contains("method="), groups("method=(?P<verb>.*?) path=")),
            by=["verb"],
        ),
    )
    yield (
        f'count_over_time({sel} | logfmt | keep stream, method | method!="" [{w}])',
        over(
            "count", wide, parse_logfmt, label("method", lambda t: t != ""),
            labels=only("stream", "method"),
        ),
    )
    yield (
        f'sum by (both) (count_over_time({sel} | logfmt '
        f'| label_format both="{{{{.method}}}}-{{{{.host}}}}" [{r}]))',
        grouped(
            "sum",
            over(
                "count", s, parse_logfmt,
                label_format("both", lambda e: e.get("method") + "-" + e.get("host")),
            ),
            by=["both"],
        ),
    )
    yield (
        f"sum by (verb) (count_over_time({sel} | logfmt | label_format verb=method [{r}]))",
        grouped("sum", over("count", s, parse_logfmt, rename("verb", "method")), by=["verb"]),
    )
    yield (
        f'sum(bytes_over_time({sel} | line_format "{{{{.host}}}} {{{{.level}}}}" [{r}]))',
        grouped(
            "sum",
            over("bytes", s, line_format(lambda e: e.get("host") + " " + e.get("level"))),
        ),
    )
    for function in ("sum", "avg", "min", "max", "first", "last"):
        yield (
            f"{function}_over_time({sel} | unwrap took [{w}]) by (host)",
            over(function, wide, labels=only("host"), unwrap="took"),
        )
    yield (
        f"quantile_over_time(0.9, {sel} | unwrap took [{w}]) without (host, level)",
        over(
            "quantile", wide, unwrap="took", q=0.9,
            labels=lambda e: {k: v for k, v in series_labels()(e).items() if k not in ("host", "level")},
        ),
    )
    yield (
        f'sum by (level) (sum_over_time({sel} | logfmt | unwrap bytes [{r}]))',
        grouped("sum", over("sum", s, parse_logfmt, unwrap="bytes"), by=["level"]),
    )
    yield (
        f"max by (took) (count_over_time({sel} | took > 1.5 [{r}]))",
        grouped(
            "max",
            over(
                "count", s, number("took", lambda v: v > 1.5), labels=series_labels("took")
            ),
            by=["took"],
        ),
    )


def log_queries(d, kind):
    """Returns (text, entries)."""
    sel = '{stream="' + d.stream + '"}'
    yield sel, []
    yield sel + ' |= "1" or "a"', [contains("1", "a")]
    yield sel + ' != "1" |~ "[a-z]"', [lacks("1"), matches("[a-z]")]
    if kind == "access":
        yield (
            sel + ' | status >= 400 | line_format "{{.status}} {{.path}}"',
            [
                number("status", lambda v: v >= 400),
                line_format(lambda e: e.get("status") + " " + e.get("path")),
            ],
        )
    else:
        yield sel + ' | logfmt | method="GET"', [parse_logfmt, label("method", lambda t: t == "GET")]
        yield sel + " | json | drop __error__", [parse_json, drop("__error__")]


def stages_of(kind):
    """Returns the stages that are drawn: each with its text.

    A filter stands behind `drop`, which would take a following `!= "2"` for a condition on its label.
    """
    common = [
        (' |= "1" or "GET"', contains("1", "GET")),
        (' != "2"', lacks("2")),
        (' |~ "[0-9]{2}"', matches("[0-9]{2}")),
        (' !~ "[02468]$"', lambda e: not matches("[02468]$")(e)),
        (' | host=~".*[1357]"', label("host", whole(".*[1357]"))),
        (' | detected_level!="error"', label("detected_level", lambda t: t != "error")),
        (' | nothing=""', label("nothing", lambda t: t == "")),
        (' | drop level | nothing=""', drop("level")),
        (
            ' | label_format both="{{.host}}-{{.detected_level}}"',
            label_format("both", lambda e: e.get("host") + "-" + e.get("detected_level")),
        ),
        (" | label_format who=host", rename("who", "host")),
        (' | regexp "(?P<digit>[3-9])"', groups("(?P<digit>[3-9])")),
    ]
    if kind == "access":
        return common + [
            (" | status >= 300", number("status", lambda v: v >= 300)),
            (' | status_class="2xx"', label("status_class", lambda t: t == "2xx")),
            (' | method!~"P.*"', label("method", lambda t: not whole("P.*")(t))),
            (" | response_size < 2KB", number("response_size", lambda v: v < 2000)),
            (
                ' | status = 404 or path=~".*[13]"',
                lambda e: e.get("status") == "404" or whole(".*[13]")(e.get("path")),
            ),
            (
                ' | line_format "{{.status}} {{.path}}"',
                line_format(lambda e: e.get("status") + " " + e.get("path")),
            ),
            (
                ' | json | drop __error__ | nothing=""',
                lambda e: parse_json(e) and drop("__error__")(e),
            ),
        ]
    return common + [
        (" | took > 1.5", number("took", lambda v: v > 1.5)),
        (' | level=~"info|warn"', label("level", whole("info|warn"))),
        (" | logfmt", parse_logfmt),
        (' | logfmt | method="GET"', lambda e: parse_logfmt(e) and e.get("method") == "GET"),
        (' | json | drop __error__ | nothing=""', lambda e: parse_json(e) and drop("__error__")(e)),
        (
            ' | line_format "{{.level}}:{{__line__}}"',
            line_format(lambda e: e.get("level") + ":" + e.line),
        ),
    ]


def drawn_stages(draw, kind):
    some = [draw.choice(stages_of(kind)) for _ in range(draw.choice((0, 1, 1, 2, 3)))]
    return "".join(text for text, _ in some), [stage for _, stage in some]


def drawn_metric(d, draw, kind, by=None):
    """Draws an aggregation of a range; returns its text and its series."""
    text, stages = drawn_stages(draw, kind)
    seconds = draw.choice((1, d.step, d.step, 2 * d.step + 1, 4 * d.step))
    offset = draw.choice((0, 0, 0, 1, d.step, 3 * d.step - 1))
    names = ["host", "level", "detected_level", "status_class", "both", "who", "digit"]
    names += ["status", "method"] if kind == "access" else ["method", "took"]
    unwrap = draw.choice((None, None, "response_size" if kind == "access" else "took"))
    outer = draw.choice(("sum", "sum", "avg", "min", "max", "count"))
    without = None
    if by is None and draw.random() < 0.2:
        without = draw.sample(names, 2)
    elif by is None:
        by = draw.sample(names, draw.randrange(3))
    named = by or ()
    more, labels, q, inner = "", series_labels(*named), None, ""
    if unwrap:
        functions = ("rate", "sum", "avg", "min", "max", "first", "last", "quantile")
        function = draw.choice(functions)
        more = f" | unwrap {unwrap}"
        if function not in ("rate", "sum") and draw.random() < 0.6:
            chosen = draw.sample(names, 1) + list(named)
            labels, inner = only(*chosen), f" by ({', '.join(chosen)})"
    else:
        function = draw.choice(("count", "rate", "bytes", "bytes_rate"))
    if function == "quantile":
        q = draw.choice((0, 0.25, 0.5, 0.95, 1))
    spelled = function if "rate" in function else function + "_over_time"
    sel = '{stream="' + d.stream + '"}'
    behind = f" offset {offset}s" if offset else ""
    parameter = f"{q}, " if q is not None else ""
    body = f"{spelled}({parameter}{sel}{text}{more} [{seconds}s]{behind}){inner}"
    group = f"without ({', '.join(without)}) " if without else f"by ({', '.join(named)}) " if named else ""
    series = d.over(
        function, seconds, *stages, unwrap=unwrap, labels=labels, offset=offset, q=q
    )
    return f"{outer} {group}({body})", grouped(outer, series, by=by, without=without)


def drawn_queries(d, draw, kind, count):
    """Returns (text, series): queries drawn from the grammar, at instants of their own."""
    start, step, steps = d.start, d.step, d.count
    for _ in range(count):
        d.step = max(1, round(step * draw.choice((0.5, 1, 2))))
        d.start = start + draw.randrange(-3, 9) * SECOND // 2
        d.count = draw.randrange(1, 50)
        text, series = drawn_metric(d, draw, kind)
        if draw.random() < 0.25:
            by = draw.sample(["host", "level", "detected_level"], draw.randrange(3))
            operator, operate = draw.choice(
                (
                    ("-", lambda a, b: a - b),
                    ("*", lambda a, b: a * b),
                    ("+", lambda a, b: a + b),
                )
            )
            (left, some), (right, others) = (drawn_metric(d, draw, kind, by) for _ in range(2))
            text, series = f"{left} {operator} {right}", combined(operate, some, others)
        elif draw.random() < 0.2:
            # No value is as near to this number as the last bits of two computations differ.
            text, series = f"{text} > 2.71828", combined(
                lambda a, b: a if a > b else None, series, 2.71828
            )
        yield text, series
    d.start, d.step, d.count = start, step, steps


def ask(d, path, headers=None, **parameters):
    query = urllib.parse.urlencode(parameters)
    answer = json.loads(fetch(f"{d.url}/loki/api/v1/{path}?{query}", headers))
    assert answer["status"] == "success", answer
    return answer["data"]


def check_metric(d, text, expected):
    end = d.start + (d.count - 1) * d.step * SECOND
    data = ask(d, "query_range", query=text, start=d.start, end=end, step=f"{d.step}s")
    assert data["resultType"] == "matrix", data
    found = {}
    for series in data["result"]:
        key = frozenset(series["metric"].items())
        assert key not in found, f"{text}: the series {series['metric']} twice"
        found[key] = {round(t * SECOND): float(v) for t, v in series["values"]}
    wanted = {}
    for key, points in expected.items():
        points = {d.start + n * d.step * SECOND: v for n, v in enumerate(points) if v is not None}
        if points:
            wanted[key] = points
    assert found.keys() == wanted.keys(), (
        f"{text}: series {[sorted(k) for k in found.keys() ^ wanted.keys()][:5]} "
        f"are in one answer only"
    )
    values = 0
    for key, points in wanted.items():
        assert found[key].keys() == points.keys(), f"{text}: other steps of {sorted(key)}"
        for t, value in points.items():
            got = found[key][t]
            same = math.isclose(got, value, rel_tol=1e-9, abs_tol=1e-12)
            assert same, f"{text}: {sorted(key)} at {t}: {got}, and {value} from raw events"
            values += 1
    return values


def check_log(d, text, stages, direction):
    # The last instant is not in the range.
    start, end = d.first + 1, d.last
    data = ask(
        d, "query_range", query=text, start=start, end=end, limit=LIMIT, direction=direction
    )
    assert data["resultType"] == "streams", data
    found, times = [], []
    for stream in data["result"]:
        ns = [int(n) for n, _ in stream["values"]]
        assert ns == sorted(ns, reverse=direction == "backward"), f"{text}: order of a stream"
        times.extend(ns)
        labels = {k: v for k, v in stream["stream"].items() if k != "__error_details__"}
        found.extend((int(n), line, tuple(sorted(labels.items()))) for n, line in stream["values"])
    all_entries = [
        (e.ns, e.line, tuple(sorted(e.all().items())))
        for e in d.passing(stages)
        if start <= e.ns < end
    ]
    all_entries.sort(key=lambda e: e[0], reverse=direction == "backward")
    cut = all_entries[:LIMIT]
    assert sorted(times) == sorted(e[0] for e in cut), f"{text}: other times"
    # Of the events at the instant where the limit cuts, any may be returned.
    edge = cut[-1][0] if len(all_entries) > LIMIT else None
    inside = sorted(e for e in cut if e[0] != edge)
    got = sorted(e for e in found if e[0] != edge)
    for one, other in zip(got, inside):
        assert one == other, f"{text}:\n{one}\n{other}"
    assert len(got) == len(inside), f"{text}: {len(got)} lines instead of {len(inside)}"
    return len(found)


def volume(d, labels, start, end, step, headers):
    """Returns the bars of a log volume: instant, set of labels -> number."""
    text = (
        f"sum by ({labels}) "
        f'(count_over_time({{stream="{d.stream}"}} | drop __error__ [{step}s]))'
    )
    data = ask(d, "query_range", headers, query=text, start=start, end=end, step=f"{step}s")
    bars = {}
    for series in data["result"]:
        for t, v in series["values"]:
            bars[t, frozenset(series["metric"].items())] = int(float(v))
    return bars, data["stats"]["summary"]["totalLinesProcessed"]


def check_volume(d):
    """The bars of Explore are the numbers of events that they cover, at every step.

    With the header of Grafana's log volume a bar is [t - step, t), else (t - step, t].
    """
    few = 0
    for step in (1, 2, 7, 15, 60, 300, 3600, 7200, 86400):
        step_ns = step * SECOND
        # At most 1,000 steps, the newest event in the last one.
        count = min(1000, (d.last - d.first) // step_ns + 2)
        for aligned_to, tagged, labels in itertools.product(
            (step_ns, SECOND), (True, False), ("level, detected_level", "status_class", "stream")
        ):
            end = (d.last // aligned_to + 1) * aligned_to
            start = end - (count - 1) * step_ns
            headers = {"X-Query-Tags": "Source=logvolhist"} if tagged else None
            bars, rows = volume(d, labels, start, end, step, headers)
            wanted = collections.Counter()
            for e in d.entries:
                ns = e.ns if tagged else e.ns - 1
                if start - step_ns <= ns < end:
                    t = start // SECOND + ((ns - start) // step_ns + 1) * step
                    named = {name: e.get(name) for name in labels.split(", ")}
                    wanted[t, frozenset((n, v) for n, v in named.items() if v)] += 1
            assert bars == wanted, f"log volume at {step} s by {labels}, tagged: {tagged}"
            few += tagged and rows < sum(wanted.values()) / 2
    print(f"log volume at 9 steps: equal to {len(d.entries)} events, {few} of 54 from rollups")


def main():
    url, stream, kind = sys.argv[1:4]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(2**32)
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 40
    draw = random.Random(seed)
    print(f"seed {seed}")
    d = Data(url, stream)
    check_volume(d)
    queries = 0
    own = access_queries(d) if kind == "access" else app_queries(d)
    for source in (metric_queries(d), own, drawn_queries(d, draw, kind, count)):
        for text, expected in source:
            values = check_metric(d, text, expected)
            print(f"{values:7} values  {text}")
            queries += 1
    for direction in ("forward", "backward"):
        for text, stages in log_queries(d, kind):
            lines = check_log(d, text, stages, direction)
            print(f"{lines:7} lines   {text} {direction}")
            queries += 1
    for _ in range(count // 4):
        text, stages = drawn_stages(draw, kind)
        text, direction = '{stream="' + stream + '"}' + text, draw.choice(("forward", "backward"))
        print(f"{check_log(d, text, stages, direction):7} lines   {text} {direction}")
        queries += 1
    assert queries >= 25 + count, queries
    print(f"{queries} queries on {len(d.entries)} events of {stream}: equal")


if __name__ == "__main__":
    main()
