"""The values of documents: their types, their order, their numbers and their dates."""

import math
import re
from datetime import date as day_type
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from zoneinfo import ZoneInfo

from bson import Decimal128, Int64, ObjectId
from bson.decimal128 import create_decimal128_context

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)
DECIMALS = create_decimal128_context()


class Refused(Exception):
    """MongoDB answers with an error."""


class Undecided(Exception):
    """The outcome is left open."""


class Bag(list):
    """An array, or a stream of documents, whose elements come in no particular order."""


class Missing:
    """The value of a field that is not there."""

    def __repr__(self):
        return "MISSING"


MISSING = Missing()

# ---- values ----


def is_number(value):
    """Whether the value is an int, long, double or decimal."""
    return isinstance(value, (int, float, Decimal128)) and not isinstance(value, bool)


def is_null(value):
    """Whether the value is null or missing."""
    return value is None or value is MISSING


def plain(value):
    """The number as an int, float or Decimal."""
    return value.to_decimal() if isinstance(value, Decimal128) else value


def is_whole(value):
    """Whether the value is a number without a fraction."""
    if not is_number(value) or not math.isfinite(plain(value)):
        return False
    return plain(value) == int(plain(value))


def is_index(value):
    """Whether the value is a number without a fraction that fits into 32 bits."""
    return is_whole(value) and -(2**31) <= plain(value) < 2**31


def type_name(value):
    """The name `$type` gives to the value."""
    if isinstance(value, Missing):
        return "missing"
    if isinstance(value, int) and not isinstance(value, (bool, Int64)):
        return "int" if -(2**31) <= value < 2**31 else "long"
    names = [(bool, "bool"), (Int64, "long"), (float, "double"), (Decimal128, "decimal")]
    names += [(str, "string"), (datetime, "date"), (ObjectId, "objectId"), (dict, "object")]
    names += [(list, "array"), (type(None), "null")]
    return next((name for kind, name in names if isinstance(value, kind)), str(type(value)))


def truth(value):
    """The value as a condition."""
    if is_number(value):
        return plain(value) != 0
    return not is_null(value) and value is not False


def loose(value):
    """Whether the value is an array whose order is open."""
    return isinstance(value, Bag) and len(value) > 1


def like(source, items):
    """The items as an array which is as ordered as its source."""
    return Bag(items) if loose(source) else list(items)


class DocumentKey:
    """The place of a document in the order of values, known only for up to one field."""

    def __init__(self, document):
        self.fields = tuple(sorted((name, key(value)) for name, value in document.items()))
        self.names = tuple(document)

    def __eq__(self, other):
        if self.fields == other.fields and self.names != other.names:
            raise Undecided("documents whose fields have another order")
        return self.fields == other.fields

    def __hash__(self):
        return hash(self.fields)

    def __lt__(self, other):
        if self.fields and other.fields and len(self.fields) + len(other.fields) > 2:
            raise Undecided("order of documents of several fields")
        parts = [[(k[0], name, k[1:]) for name, k in one.fields] for one in (self, other)]
        return parts[0] < parts[1]


RANKS = ["missing", "null", "number", "string", "object", "array", "objectId", "bool", "date"]


def key(value):
    """A hashable stand-in that sorts and compares like the value."""
    name = "number" if is_number(value) else type_name(value)
    if name not in RANKS:
        raise Undecided("a value of the type " + name)
    rank = RANKS.index(name)
    if is_null(value):
        return (rank,)
    if name == "number":
        number = plain(value)
        return (rank, 0, 0) if number != number else (rank, 1, number)
    if name == "object":
        return (rank, DocumentKey(value))
    if name == "array":
        if loose(value):
            raise Undecided("comparison of an array without an order")
        return (rank, tuple(map(key, value)))
    return (rank, value)


def compare(left, right):
    """-1, 0 or 1, as the left value sorts before, with or after the right one."""
    left, right = key(left), key(right)
    return 0 if left == right else -1 if left < right else 1


def distinct(values):
    """The values without duplicates."""
    seen = {}
    for value in values:
        if not same(seen.setdefault(key(value), value), value):
            raise Undecided("equal values of different types")
    return list(seen.values())


def same(left, right):
    """Whether two results are equal; the elements of a `Bag` count in any order."""
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return False
        if isinstance(left, Bag) or isinstance(right, Bag):
            rest = list(right)
            for item in left:
                found = next((i for i, other in enumerate(rest) if same(item, other)), None)
                if found is None:
                    return False
                del rest[found]
            return True
        return all(map(same, left, right))
    names = [type_name(value).replace("long", "int") for value in (left, right)]
    if names[0] != names[1]:
        return False
    if names[0] == "object":
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if names[0] in ("double", "decimal"):
        left, right = plain(left), plain(right)
        if left == right or (left != left and right != right):
            return True
        if not math.isfinite(left) or not math.isfinite(right):
            return False
        digits = type(left)("1e-12")
        return abs(left - right) <= digits * max(abs(left), abs(right), 1)
    return left == right


# ---- numbers ----


def integer(value, long=False):
    """An int, or a long if asked for or needed, or a double if that is not enough either."""
    if not -(2**63) <= value < 2**63:
        return float(value)
    return Int64(value) if long or not -(2**31) <= value < 2**31 else int(value)


def as_decimal(value):
    """The number as a decimal; doubles keep 15 digits."""
    if isinstance(value, float):
        return Context(prec=15).create_decimal(value)
    return Decimal(plain(value))


def arithmetic(function, *values):
    """The function of the numbers, in the widest of their types."""
    if any(isinstance(value, Decimal128) for value in values):
        with localcontext(DECIMALS):
            result = function(*map(as_decimal, values))
            return Decimal128(DECIMALS.create_decimal(result))
    if any(isinstance(value, float) for value in values):
        return float(function(*map(float, values)))
    return integer(function(*map(int, values)), any(isinstance(v, Int64) for v in values))


def total(numbers):
    """The sum of the numbers in the widest of their types, rounded once."""
    kinds = {type_name(number) for number in numbers}
    if "double" in kinds and "decimal" not in kinds and all(map(math.isfinite, numbers)):
        result = sum(map(Fraction, numbers))
        return float(result) if abs(result) < 1e308 else float(sum(map(float, numbers)))
    if "decimal" in kinds:  # doubles count with all of their digits here
        with localcontext(DECIMALS):
            return Decimal128(DECIMALS.create_decimal(sum(Decimal(plain(n)) for n in numbers)))
    return arithmetic(lambda *values: sum(values), *numbers)


def remainder(left, right):
    """The remainder with the sign of the dividend."""
    if isinstance(left, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    if isinstance(left, Decimal):
        if abs(left) > abs(right) * Decimal("1e30"):
            raise Undecided("a remainder beyond the digits of a decimal")
        return left % right
    if not math.isfinite(left):
        return math.nan
    if abs(left) > 1e3 * abs(right) and not (left.is_integer() and right.is_integer()):
        raise Undecided("a remainder that magnifies the last digits")
    return math.fmod(left, right)


def rounded(value, place, mode):
    """The number cut to so many places, in its own type."""
    number = plain(value)
    if not math.isfinite(number):
        return value
    step = Decimal(1).scaleb(-place)
    if isinstance(number, int):
        if place >= 0:
            return value
        cut = (Decimal(number) / step).to_integral_value(mode) * step
        if not -(2**63) <= cut < 2**63:
            raise Refused("too large an integer")
        return integer(int(cut), isinstance(value, Int64))
    wide = Context(prec=400)
    forms = [Decimal(number), Decimal(repr(number))] if isinstance(number, float) else [number]
    cuts = [wide.multiply(wide.divide(n, step).to_integral_value(mode), step) for n in forms]
    if cuts[0] != cuts[-1]:
        raise Undecided("rounding next to a tie")
    if isinstance(number, float):
        return float(cuts[0])
    return Decimal128(DECIMALS.create_decimal(cuts[0]))


# ---- dates ----

STEPS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def shifted(date, amount):
    """The date moved by milliseconds."""
    if not is_whole(amount):
        raise Undecided("fractions of milliseconds")
    try:
        return date + timedelta(milliseconds=int(plain(amount)))
    except OverflowError:
        raise Undecided("a date outside of the years 1 to 9999") from None


def instant(value):
    """The date of a date or of an object id."""
    return value.generation_time if isinstance(value, ObjectId) else value


def zone_of(name):
    """The time zone of that name or offset."""
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)?", name)
    if offset:
        size = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-size if offset[1] == "-" else size)
    try:
        return timezone.utc if name in ("UTC", "GMT") else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise Refused("unknown time zone") from None


def local(date, zone):
    """The date as it reads in the time zone."""
    try:
        result = instant(date).astimezone(zone_of(zone))
    except OverflowError:
        raise Undecided("a date outside of the years 1 to 9999") from None
    if isinstance(result.tzinfo, ZoneInfo) and not 1970 <= result.year <= 2037:
        raise Undecided("a named time zone far from today")
    return result


def global_(naive, zone):
    """The instant of a local time."""
    results = [naive.replace(tzinfo=zone_of(zone), fold=f) for f in (0, 1)]
    if results[0].utcoffset() != results[1].utcoffset():
        raise Undecided("a local time that a clock change repeats or skips")
    try:
        result = results[0].astimezone(timezone.utc)
        local(result, zone)
        return result
    except OverflowError:
        raise Undecided("a date outside of the years 1 to 9999") from None


def checked_unit(unit):
    """The unit of time, in lower case."""
    if unit not in [*STEPS, "day", "week", *MONTHS]:
        raise Refused("unknown unit of time")
    return unit


def weekday(name):
    """The number of a day of the week, Monday being 0; names may be cut to three letters."""
    matches = [i for i, day in enumerate(WEEKDAYS) if name.lower() in (day, day[:3])]
    if not matches:
        raise Refused("unknown day of the week")
    return matches[0]


def at_month(months, day, clock):
    """The local time at a number of months since year 0, with the day cut to the month."""
    year, month = divmod(months, 12)
    try:
        after = datetime(year + (month == 11), (month + 1) % 12 + 1, 1)
        last = (after - timedelta(days=1)).day
        return datetime.combine(day_type(year, month + 1, min(day, last)), clock)
    except (OverflowError, ValueError):
        raise Undecided("a date outside of the years 1 to 9999") from None


def date_text(date, pattern):
    """The local date written by the pattern."""
    year, week, iso_day = date.isocalendar()
    offset = int(date.utcoffset().total_seconds() // 60)
    sign, hours = "-" if offset < 0 else "+", divmod(abs(offset), 60)
    texts = {
        "Y": f"{date.year:04}", "m": f"{date.month:02}", "d": f"{date.day:02}",
        "H": f"{date.hour:02}", "M": f"{date.minute:02}", "S": f"{date.second:02}",
        "L": f"{date.microsecond // 1000:03}", "j": f"{date.timetuple().tm_yday:03}",
        "w": str(iso_day % 7 + 1), "u": str(iso_day), "U": date.strftime("%U"),
        "V": f"{week:02}", "G": f"{year:04}", "z": "%s%02d%02d" % (sign, *hours),
        "Z": f"{sign}{abs(offset):03}", "%": "%",
    }  # fmt: skip
    if re.sub(r"%[YmdHMSLjwuUVGzZ%]", "", pattern).count("%"):
        raise Refused("unknown format")
    return re.sub("%(.)", lambda match: texts[match[1]], pattern)


# ---- paths and sorting ----


def walk(value, path):
    """The value at a path of names; arrays on the way give arrays."""
    for depth, name in enumerate(path):
        if isinstance(value, list):
            found = [walk(item, path[depth:]) for item in value if isinstance(item, dict)]
            return like(value, [item for item in found if item is not MISSING])
        value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
    return value


def sort_keys(value, path):
    """The keys of all values at a path, where an array counts with each of its elements."""
    for depth, name in enumerate(path):
        if isinstance(value, list):
            if not value or not all(isinstance(item, dict) for item in value):
                raise Undecided("sorting through an array of other things than documents")
            return [one for item in value for one in sort_keys(item, path[depth:])]
        value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
    if isinstance(value, list):
        return [key(item) for item in value] or [key(MISSING)]
    return [key(None if value is MISSING else value)]


def sort(items, order):
    """The items in the order {path: 1 or -1, ...}; a `Bag` where this does not settle it."""
    columns = {path: [sort_keys(item, path.split(".")) for item in items] for path in order}
    if any(sum(len(c[row]) != 1 for c in columns.values()) > 1 for row in range(len(items))):
        raise Undecided("sorting by several arrays")
    result = list(range(len(items)))
    for path, way in reversed(order.items()):
        best = [(min if way > 0 else max)(keys) for keys in columns[path]]
        columns[path] = best
        result.sort(key=best.__getitem__, reverse=way < 0)
    ties = [
        not same(items[a], items[b])
        for a, b in zip(result, result[1:])
        if all(column[a] == column[b] for column in columns.values())
    ]
    return (Bag if any(ties) else list)(items[place] for place in result)
