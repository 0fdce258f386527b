"""Prometheus' read API against a recomputation from raw events, with the standard library alone.

Usage: prometheus.py URL STREAM TRAFFIC STATS [SEED [COUNT]]. STREAM is a stream of access logs, TRAFFIC and STATS are
the names of its default rollups. The script reads all events of the stream by SQL. For each query it
computes the answer from these events by a function of its own (it reads no PromQL, and shares no code
with the server), and compares it with the server's at instants inside, between and around buckets, and
at the steps of a range. COUNT more queries are drawn from a grammar.
"""

import bisect
import calendar
import datetime
import json
import math
import random
import re
import sys
import urllib.parse
import urllib.request

URL, STREAM, TRAFFIC, STATS = sys.argv[1:5]
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(2**32)
COUNT = int(sys.argv[6]) if len(sys.argv) > 6 else 20
API = URL + "/prometheus/api/v1/"
HITS = f"logmill_{TRAFFIC}_hits_total"
BYTES = f"logmill_{TRAFFIC}_bytes_total"
SIZE = f"logmill_{TRAFFIC}_size"
GAUGE = f"logmill_{TRAFFIC}_hits"
PATHS = f"logmill_{STATS}_hits_total"
VISITORS = f"logmill_{TRAFFIC}_visitors"
NAN, INF = math.nan, math.inf


# ---- the server

def fetch(path, parameters):
    body = urllib.parse.urlencode(parameters).encode()
    with urllib.request.urlopen(urllib.request.Request(API + path, body)) as answer:
        return json.load(answer)["data"]


def frozen(labels):
    return frozenset(labels.items())


def vector(data):
    """A vector as {labels: value}."""
    if data["resultType"] == "scalar":
        return {frozenset(): float(data["result"][1])}
    rows = [(frozen(row["metric"]), float(row["value"][1])) for row in data["result"]]
    assert len(rows) == len(dict(rows)), "labels occur twice"
    return dict(rows)


def matrix(data):
    """A matrix as {labels: {time: value}}."""
    return {
        frozen(row["metric"]): {at: float(value) for at, value in row["values"]}
        for row in data["result"]
    }


# ---- raw events

def read_events():
    sql = f"SELECT time, site, path, status, method, response_size, host FROM {STREAM} ORDER BY time"
    request = urllib.request.Request(
        URL + "/api/v1/sql", sql.encode(), {"Accept": "application/x-ndjson"}
    )
    with urllib.request.urlopen(request) as answer:
        lines = answer.read().decode().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        text = row["time"].rstrip("Z").split(".")
        at = datetime.datetime.strptime(text[0], "%Y-%m-%dT%H:%M:%S")
        row["at"] = calendar.timegm(at.timetuple()) + (float("0." + text[1]) if text[1:] else 0.0)
    return [row for row in rows if "at" in row]


EVENTS = read_events()
FIRST, LAST = EVENTS[0]["at"], EVENTS[-1]["at"]


def label(value):
    return "(empty)" if value == "" else str(value)


def by_key(names):
    """Events by labels: {labels: ([times], [events])}."""
    groups = {}
    for event in EVENTS:
        key = frozenset((n, label(event[n])) for n in names if event[n] is not None)
        times, events = groups.setdefault(key, ([], []))
        times.append(event["at"])
        events.append(event)
    return groups


KEYED = {"traffic": by_key(["site", "status", "method"]), "stats": by_key(["site", "path"])}


def floor(t, length=60):
    return math.floor(t / length) * length


def between(group, start, end):
    """Events with start <= time < end."""
    times, events = group
    return events[bisect.bisect_left(times, start):bisect.bisect_left(times, end)]


def size_sum(events):
    return float(sum(e["response_size"] or 0 for e in events))


def chosen(keys, passes):
    return {k: g for k, g in KEYED[keys].items() if passes(dict(k))}


def everything(labels):
    return True


def total(keys, t, passes=everything, name=None, of=len):
    """A counter: all events in the minutes that have ended at t."""
    out = {}
    for key, group in chosen(keys, passes).items():
        events = between(group, -INF, floor(t))
        if events:
            extra = {("__name__", name)} if name else set()
            out[key | extra] = float(of(events))
    return out


def increase(keys, t, seconds, passes=everything, of=len):
    """Events in the minutes that end in (t - seconds, t], scaled to the length of the window."""
    start, end = floor(t - seconds), floor(t)
    out = {}
    for key, group in chosen(keys, passes).items():
        events = between(group, start, end)
        if events:
            out[key] = of(events) * seconds / (end - start)
    return out


def rate(keys, t, seconds, passes=everything, of=len):
    return {k: v / seconds for k, v in increase(keys, t, seconds, passes, of).items()}


def gauge(t, passes=everything, length=60, of=len):
    """A gauge: the bucket that ended last, if it has events."""
    end = floor(t, length)
    out = {}
    for key, group in chosen("traffic", passes).items():
        events = between(group, end - length, end)
        if events:
            out[key] = float(of(events))
    return out


def gauge_samples(t, seconds, passes=everything):
    """Samples of a gauge in (t - seconds, t]: {labels: [(time, value)]}."""
    out = {}
    for key, group in chosen("traffic", passes).items():
        counts = {}
        for event in between(group, floor(t - seconds), floor(t)):
            end = floor(event["at"]) + 60
            counts[end] = counts.get(end, 0.0) + 1.0
        if counts:
            out[key] = sorted(counts.items())
    return out


def grouped(samples, names, reduce, without=False):
    groups = {}
    for labels, value in samples.items():
        kept = frozenset(
            (n, v) for n, v in labels if (n not in names and n != "__name__" if without else n in names)
        )
        groups.setdefault(kept, []).append(value)
    return {k: float(reduce(v)) for k, v in groups.items()}


def quantile(q, values):
    values = sorted(values)
    rank = q * (len(values) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(values) - 1)
    return values[low] * (1 - (rank - low)) + values[high] * (rank - low)


def mean(values):
    return sum(values) / len(values)


def mapped(samples, change):
    return {bare(k): change(v) for k, v in samples.items()}


def bare(labels):
    return frozenset((n, v) for n, v in labels if n != "__name__")


def kept(samples, passes):
    return {k: v for k, v in samples.items() if passes(v)}


def on(labels, names):
    return frozenset((n, v) for n, v in labels if n in names)


def hdr(value):
    """The bucket of a value in a histogram of two digits: (greatest value below it, its greatest)."""
    if value < 256:
        return value - 1, value
    shift = value.bit_length() - 8
    low = (value >> shift) << shift
    return low - 1, low + (1 << shift) - 1


def histogram_quantile(q, events):
    """Linear within the bucket with the rank, from the sizes themselves."""
    sizes = sorted(e["response_size"] for e in events if e["response_size"] is not None)
    if not sizes:
        return None
    rank = q * len(sizes)
    index = max(math.ceil(rank), 1) - 1
    below, highest = hdr(sizes[index])
    if highest == 0:
        return 0.0
    before = sum(1 for size in sizes if size <= below)
    inside = sum(1 for size in sizes if below < size <= highest)
    return below + (highest - below) * (rank - before) / inside


def extrapolated(points, start, end):
    """Prometheus' delta: the difference extrapolated to the ends of the window."""
    if len(points) < 2:
        return None
    sampled = points[-1][0] - points[0][0]
    distance = sampled / (len(points) - 1)
    gaps = [points[0][0] - start, end - points[-1][0]]
    gaps = [gap if gap < distance * 1.1 else distance / 2 for gap in gaps]
    return (points[-1][1] - points[0][1]) * (sampled + sum(gaps)) / sampled


def over_time(t, seconds, reduce, passes=everything):
    out = {}
    for key, points in gauge_samples(t, seconds, passes).items():
        value = reduce(points)
        if value is not None:
            out[key] = float(value)
    return out


def values_of(points):
    return [value for _, value in points]


def is_error(labels):
    return labels.get("status", "").startswith(("4", "5"))


def status(*codes):
    return lambda labels: labels.get("status") in codes


def quantile_of_window(q, t, seconds, names):
    """histogram_quantile over the summed increase, by labels."""
    groups = {}
    for key, group in KEYED["traffic"].items():
        events = between(group, floor(t - seconds), floor(t))
        if events:
            groups.setdefault(on(key, names), []).extend(events)
    out = {k: histogram_quantile(q, events) for k, events in groups.items()}
    return {k: NAN if v is None else v for k, v in out.items()}


def ratio(t):
    errors = sum(rate("traffic", t, 300, is_error).values())
    both = rate("traffic", t, 300)
    return {frozenset(): errors / sum(both.values())} if both and errors else {}


def shares(t):
    """Each status of a method by the method's sum."""
    by_method = grouped(rate("traffic", t, 600), ["method"], sum)
    rates = grouped(rate("traffic", t, 600), ["status", "method"], sum)
    return {k: v / by_method[on(k, ["method"])] for k, v in rates.items()}


def replaced(t):
    out = {}
    for key, value in grouped(increase("traffic", t, 600), ["status"], sum).items():
        code = dict(key).get("status", "")
        found = re.fullmatch("(.).*", code)
        out[key | {("class", found[1] + "xx")} if found else key] = value
    return out


def top(samples, k):
    """The k greatest; None if it depends on the order of equal ones."""
    ordered = sorted(samples.items(), key=lambda pair: -pair[1])
    if len(ordered) > k and ordered[k - 1][1] == ordered[k][1]:
        return None
    return dict(ordered[:k])


def gauge_delta(points, t):
    return extrapolated(points, t - 1800, t)


def ten_minutes(t):
    return grouped(increase("traffic", t, 600), ["status"], sum)


def either(left, right, names):
    taken = {on(k, names) for k in left}
    return {**left, **{k: v for k, v in right.items() if on(k, names) not in taken}}


SIX = 'status=~"4..|5.."'
CHECKS = [
    # selectors
    (HITS, lambda t: total("traffic", t, name=HITS)),
    (f'{HITS}{{status="404"}}', lambda t: total("traffic", t, status("404"), HITS)),
    (f'{HITS}{{status!="404"}}', lambda t: total("traffic", t, lambda l: l.get("status") != "404", HITS)),
    (f"{HITS}{{{SIX}}}", lambda t: total("traffic", t, is_error, HITS)),
    (f'{HITS}{{status!~"2..|3.."}}', lambda t: total(
        "traffic", t, lambda l: not re.fullmatch("2..|3..", l.get("status", "")), HITS)),
    (f'{HITS}{{site=""}}', lambda t: total("traffic", t, lambda l: "site" not in l, HITS)),
    (f'{HITS}{{method!="",status="200"}}', lambda t: total(
        "traffic", t, lambda l: "method" in l and l.get("status") == "200", HITS)),
    (f"{BYTES}", lambda t: total("traffic", t, name=BYTES, of=size_sum)),
    # counters
    (f"increase({HITS}[5m])", lambda t: increase("traffic", t, 300)),
    (f"increase({HITS}[1h])", lambda t: increase("traffic", t, 3600)),
    (f"rate({HITS}[10m])", lambda t: rate("traffic", t, 600)),
    (f"rate({HITS}[90s])", lambda t: rate("traffic", t, 90)),
    (f"irate({HITS}[10m])", lambda t: {
        k: len(between(KEYED["traffic"][k], floor(t) - 60, floor(t))) / 60
        for k in increase("traffic", t, 600)}),
    (f"increase({BYTES}[5m])", lambda t: increase("traffic", t, 300, of=size_sum)),
    (f'increase({PATHS}{{path=~"/.*a.*"}}[1h])', lambda t: increase(
        "stats", t, 3600, lambda l: re.fullmatch("/.*a.*", l.get("path", "")))),
    (f"{HITS} - {HITS} offset 10m", lambda t: {
        bare(k): v - earlier[k] for earlier in [total("traffic", t - 600)]
        for k, v in total("traffic", t).items() if k in earlier}),
    # aggregations
    (f"sum(increase({HITS}[1d]))", lambda t: grouped(increase("traffic", t, 86400), [], sum)),
    (f"sum by (status) (rate({HITS}[5m]))", lambda t: grouped(rate("traffic", t, 300), ["status"], sum)),
    (f"sum without (status, site) (increase({HITS}[5m]))", lambda t: grouped(
        increase("traffic", t, 300), ["status", "site"], sum, without=True)),
    (f"avg by (method) (increase({HITS}[10m]))", lambda t: grouped(
        increase("traffic", t, 600), ["method"], mean)),
    (f"min(increase({HITS}[10m]))", lambda t: grouped(increase("traffic", t, 600), [], min)),
    (f"max by (method) (increase({HITS}[10m]))", lambda t: grouped(
        increase("traffic", t, 600), ["method"], max)),
    (f"count by (status) ({HITS})", lambda t: grouped(total("traffic", t), ["status"], len)),
    (f"stddev(increase({HITS}[1h]))", lambda t: grouped(
        increase("traffic", t, 3600), [], lambda v: math.sqrt(mean([(x - mean(v)) ** 2 for x in v])))),
    (f"quantile(0.7, increase({HITS}[1h]))", lambda t: grouped(
        increase("traffic", t, 3600), [], lambda v: quantile(0.7, v))),
    (f"topk(3, increase({PATHS}[1h]))", lambda t: top(increase("stats", t, 3600), 3)),
    (f"bottomk(1, {HITS})", lambda t: top({k: -v for k, v in total("traffic", t, name=HITS).items()}, 1)),
    # gauges
    (f'sum({GAUGE})', lambda t: grouped(gauge(t), [], sum)),
    (f'sum by (status, level) ({GAUGE}{{level="hour"}})', lambda t: {
        k | {("level", "hour")}: v for k, v in grouped(gauge(t, length=3600), ["status"], sum).items()}),
    (f"sum without (level) ({VISITORS})", lambda t: gauge(
        t, length=3600, of=lambda events: len({e["host"] for e in events if e["host"] is not None}))),
    (f"sum without (level) (sum_over_time({GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: sum(values_of(p)))),
    (f"sum without (level) (avg_over_time({GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: mean(values_of(p)))),
    (f"sum without (level) (min_over_time({GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: min(values_of(p)))),
    (f"sum without (level) (max_over_time({GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: max(values_of(p)))),
    (f"sum without (level) (count_over_time({GAUGE}[30m]))", lambda t: over_time(t, 1800, len)),
    (f"sum without (level) (last_over_time({GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: p[-1][1])),
    (f"sum without (level) (quantile_over_time(0.4, {GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: quantile(0.4, values_of(p)))),
    (f"sum without (level) (delta({GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: gauge_delta(p, t))),
    (f"sum without (level) (changes({GAUGE}[30m]))", lambda t: over_time(
        t, 1800, lambda p: sum(a[1] != b[1] for a, b in zip(p, p[1:])))),
    (f"max_over_time(sum(rate({HITS}[5m]))[20m:5m])", lambda t: {
        k: max(v) for k, v in {
            frozenset(): [sum(rate("traffic", at, 300).values())
                          for at in range(int(floor(t - 1200, 300)) + 300, int(t) + 1, 300)
                          if rate("traffic", at, 300)]}.items() if v}),
    # operators
    (f"sum(rate({HITS}{{{SIX}}}[5m])) / sum(rate({HITS}[5m]))", ratio),
    (f"sum by (status, method) (rate({HITS}[10m])) / on (method) group_left sum by (method) (rate({HITS}[10m]))",
     shares),
    (f"increase({BYTES}[5m]) / increase({HITS}[5m])", lambda t: {
        k: v / increase("traffic", t, 300)[k] for k, v in increase("traffic", t, 300, of=size_sum).items()}),
    (f"2 ^ 3 + increase({HITS}[5m]) % 7", lambda t: mapped(
        increase("traffic", t, 300), lambda v: 8 + math.fmod(v, 7))),
    (f"sum by (status) (increase({HITS}[10m])) > 3", lambda t: kept(ten_minutes(t), lambda v: v > 3)),
    (f"sum by (status) (increase({HITS}[10m])) > bool 3", lambda t: mapped(
        ten_minutes(t), lambda v: float(v > 3))),
    (f"{HITS} == {HITS}", lambda t: total("traffic", t, name=HITS)),
    (f"{HITS} and on (status) increase({HITS}{{{SIX}}}[10m])", lambda t: {
        k: v for k, v in total("traffic", t, name=HITS).items()
        if on(k, ["status"]) in {on(o, ["status"]) for o in increase("traffic", t, 600, is_error)}}),
    (f"{HITS} unless ignoring (method) {HITS}{{{SIX}}}", lambda t: {
        k: v for k, v in total("traffic", t, name=HITS).items() if not is_error(dict(k))}),
    (f"sum by (status) (increase({HITS}[5m])) or on (status) sum by (status) (increase({HITS}[1h]))",
     lambda t: either(grouped(increase("traffic", t, 300), ["status"], sum),
                      grouped(increase("traffic", t, 3600), ["status"], sum), ["status"])),
    # functions
    (f"histogram_quantile(0.9, sum by (le) (increase({SIZE}_bucket[1h])))",
     lambda t: quantile_of_window(0.9, t, 3600, [])),
    (f"histogram_quantile(0.5, sum by (le, status) (rate({SIZE}_bucket[10m])))",
     lambda t: quantile_of_window(0.5, t, 600, ["status"])),
    (f"histogram_quantile(0.99, increase({SIZE}_bucket[5m]))",
     lambda t: quantile_of_window(0.99, t, 300, ["site", "status", "method"])),
    (f'sum(increase({SIZE}_bucket{{le="+Inf"}}[1h]))', lambda t: grouped(
        increase("traffic", t, 3600, of=lambda e: sum(x["response_size"] is not None for x in e)), [], sum)),
    (f"increase({SIZE}_sum[10m])", lambda t: increase("traffic", t, 600, of=size_sum)),
    (f'label_replace(sum by (status) (increase({HITS}[10m])), "class", "${{1}}xx", "status", "(.).*")', replaced),
    (f'label_join(sum by (status, method) (increase({HITS}[10m])), "both", " ", "method", "status")', lambda t: {
        k | {("both", f'{dict(k).get("method", "")} {dict(k).get("status", "")}')}: v
        for k, v in grouped(increase("traffic", t, 600), ["status", "method"], sum).items()}),
    (f"scalar(sum(increase({HITS}[10m]))) * 2", lambda t: {
        frozenset(): 2 * sum(increase("traffic", t, 600).values()) if increase("traffic", t, 600) else NAN}),
    (f"vector(time()) - timestamp(sum(increase({HITS}[10m])))", lambda t: {
        frozenset(): 0.0} if increase("traffic", t, 600) else {}),
    ("time() + hour() * 100 + day_of_week()", lambda t: {frozenset(): t + 100 * moment(t).hour
                                                     + (moment(t).weekday() + 1) % 7}),
    (f"clamp_max(round(increase({HITS}[10m]) / 3), 5)", lambda t: mapped(
        increase("traffic", t, 600), lambda v: min(math.floor(v / 3 + 0.5), 5.0))),
    (f'absent({HITS}{{status="999"}})', lambda t: {frozenset({("status", "999")}): 1.0}),
]


def moment(t):
    return datetime.datetime.fromtimestamp(t, datetime.timezone.utc)


def same(a, b, tolerance):
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-12)


def differences(query, expected, found):
    for key in expected.keys() | found.keys():
        a, b = expected.get(key), found.get(key)
        # Distinct counts beyond 100 are estimates, with a standard error below 2 %.
        is_estimate = VISITORS in query and a is not None and a > 100
        if a is None or b is None or not same(a, b, 0.1 if is_estimate else 1e-9):
            yield f"{sorted(key)}: {a} by events, {b} by the server"


def expected_at(query, model, t):
    expected = model(t)
    # The order of bottomk was turned round.
    if expected is not None and query.startswith("bottomk"):
        return {k: -v for k, v in expected.items()}
    return expected


def instants():
    """Times at, between and around buckets, all over the events."""
    span = LAST - FIRST
    middle = FIRST + span * 0.5
    yield from [floor(FIRST), floor(FIRST) + 60, floor(LAST) + 60, floor(LAST) + 4000.5]
    yield from [floor(middle), floor(middle) + 17.25, floor(middle, 3600), floor(middle, 86400)]
    # Weeks begin on Sunday, as that of 4 January 1970.
    sunday = floor(LAST - 3 * 86400, 7 * 86400) + 3 * 86400
    yield from [sunday, sunday + 86400, sunday + 7 * 86400]
    busiest = max(KEYED["traffic"].values(), key=lambda group: len(group[0]))[0]
    for part in (0.2, 0.7, 0.95):
        yield floor(busiest[int(len(busiest) * part)]) + 60


def check(query, model):
    compared = 0
    for t in instants():
        expected = expected_at(query, model, t)
        if expected is None:
            continue
        found = vector(fetch("query", {"query": query, "time": f"{t:.3f}"}))
        wrong = list(differences(query, expected, found))
        assert not wrong, f"at {t}: {wrong[0]} (and {len(wrong) - 1} more)"
        compared += len(expected)
    step = 300 if LAST - FIRST < 86400 else 1800
    start = floor(FIRST + (LAST - FIRST) * 0.4, step)
    steps = [start + step * n for n in range(24)]
    data = fetch("query_range", {"query": query, "start": start, "end": steps[-1], "step": step})
    found = matrix(data)
    for t in steps:
        expected = expected_at(query, model, t)
        if expected is not None:
            here = {k: points[t] for k, points in found.items() if t in points}
            wrong = list(differences(query, expected, here))
            assert not wrong, f"in a range at {t}: {wrong[0]} (and {len(wrong) - 1} more)"
            compared += len(expected)
    return compared


def check_whole_buckets():
    """Increases over the hours of the log add up to the number of events."""
    start, end = floor(FIRST, 3600), floor(LAST, 3600) + 3600
    hours = min(int((end - start) / 3600), 10_000)
    data = fetch("query_range", {
        "query": f"sum(increase({HITS}[1h]))", "start": start + 3600, "end": start + 3600 * hours, "step": 3600})
    counted = sum(sum(points.values()) for points in matrix(data).values())
    raw = sum(len(between(g, start, start + 3600 * hours)) for g in KEYED["traffic"].values())
    assert counted == raw, f"{counted} instead of {raw}"
    return raw


# ---- queries that are drawn

def full(name, pattern):
    """The test of a label by a pattern, which an absent label passes as an empty text."""
    return lambda labels: re.fullmatch(pattern, labels.get(name, "")) is not None


SELECTORS = {
    "traffic": [
        ("", everything), ('{status="404"}', full("status", "404")), ('{status=~"2.."}', full("status", "2..")),
        ('{site=""}', full("site", "")), ('{method!="GET"}', lambda l: l.get("method") != "GET"),
        ('{status!~"4..|5..",method=~"GET|POST"}',
         lambda l: not is_error(l) and full("method", "GET|POST")(l)),
    ],
    "stats": [
        ("", everything), ('{path=~".*a.*"}', full("path", ".*a.*")),
        ('{path!~"/a.*"}', lambda l: not full("path", "/a.*")(l)),
    ],
}
LABELS = {"traffic": ["site", "status", "method"], "stats": ["site", "path"]}
REDUCE = {"sum": sum, "avg": mean, "min": min, "max": max, "count": len}


def drawn_vector(draw, names=None):
    """An aggregation of a counter, or of its increase or rate over a window."""
    keys, metric, of = draw.choice(
        [("traffic", HITS, len), ("traffic", BYTES, size_sum), ("stats", PATHS, len)])
    selector, passes = draw.choice(SELECTORS[keys])
    seconds = draw.choice([60, 61, 90, 120, 300, 1800, 3600, 5400, 7200, 86400, 90000])
    offset = draw.choice([0, 0, 60, 90, 3600, 86400])
    behind = f" offset {offset}s" if offset else ""
    function = draw.choice(["increase", "increase", "rate", "counter"])
    if function == "counter":
        text = f"{metric}{selector}{behind}"
        values = lambda t: total(keys, t - offset, passes, of=of)
    else:
        text = f"{function}({metric}{selector}[{seconds}s]{behind})"
        compute = {"increase": increase, "rate": rate}[function]
        values = lambda t: compute(keys, t - offset, seconds, passes, of)
    reduce = draw.choice(list(REDUCE))
    without = names is None and draw.random() < 0.3
    if names is None:
        names = draw.sample(LABELS[keys], draw.randrange(len(LABELS[keys]) + 1))
    text = f"{reduce} {'without' if without else 'by'} ({', '.join(names)}) ({text})"
    return text, lambda t: grouped(values(t), names, REDUCE[reduce], without)


def drawn_query(draw):
    text, vector_at = drawn_vector(draw)
    kind = draw.random()
    if kind < 0.6:
        return text, vector_at
    if kind < 0.7:
        # No value is as near to this number as the last bits of two computations differ.
        return f"{text} > 2.71828", lambda t: kept(vector_at(t), lambda v: v > 2.71828)
    names = draw.sample(LABELS["traffic"], draw.randrange(2))
    (left, some), (right, others) = (drawn_vector(draw, names) for _ in range(2))
    operator, both = draw.choice([
        ("-", lambda a, b: {k: a[k] - b[k] for k in a.keys() & b.keys()}),
        ("unless", lambda a, b: {k: a[k] for k in a.keys() - b.keys()}),
        ("or", lambda a, b: {**b, **a}),
    ])
    return f"{left} {operator} {right}", lambda t: both(some(t), others(t))


def main():
    failed = 0
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    drawn = [drawn_query(draw) for _ in range(COUNT)]
    for query, model in CHECKS + drawn:
        try:
            print(f"ok {check(query, model)} values: {query}")
        except (AssertionError, urllib.error.HTTPError) as error:
            told = error.read().decode() if isinstance(error, urllib.error.HTTPError) else error
            print(f"FAILED {query}: {told}")
            failed += 1
    print(f"ok {check_whole_buckets()} events in whole hours")
    print(f"{len(CHECKS) + COUNT} queries over {len(EVENTS)} events, {failed} failed")
    sys.exit(failed > 0)


main()
