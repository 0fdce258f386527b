"""The operators of expressions, and the accumulators of groups."""

import math
import re
import statistics
from datetime import date as day_type
from datetime import datetime, time, timedelta, timezone
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN

from bson import Decimal128, Int64, ObjectId

from values import EPOCH, MILLISECOND, MISSING, MONTHS, STEPS, Bag, Refused, Undecided
from values import arithmetic, at_month, checked_unit, compare, date_text, distinct, global_
from values import instant, integer, is_index, is_null, is_number, is_whole, key, like, local
from values import loose, plain, remainder, rounded, same, shifted, sort, total, truth, type_name
from values import walk, weekday

CHECKS = {
    "val": lambda value: True,
    "num": is_number,
    "str": lambda value: isinstance(value, str),
    "arr": lambda value: isinstance(value, list),
    "seq": lambda value: isinstance(value, list),
    "obj": lambda value: isinstance(value, dict),
    "date": lambda value: isinstance(value, (datetime, ObjectId)),
    "time": lambda value: isinstance(value, datetime),
    "int": is_whole,
    "index": is_index,
    "bool": lambda value: isinstance(value, bool),
}
OPERATORS = {}  # the name to the function and the kinds of its arguments, by position or by name


def operator(name, kinds="", **named):
    """Registers an operator.

    A kind is a name out of `CHECKS` (`any` takes null as well), followed by `!` where null is
    refused instead of making the result null, by `?` where the argument may be left out, by `*`
    where it may come any number of times.
    """

    def register(function):
        OPERATORS[name] = (function, named or kinds.split())
        return function

    return register


def bind(kinds, values):
    """The values converted to their kinds, or None where a null makes the result null."""
    null = bad = False
    result = []
    for kind, value in zip(kinds, values):
        names = kind.strip("?*!").split("|")
        if names == ["any"]:
            pass
        elif is_null(value):
            null, bad = null or "!" not in kind, bad or "!" in kind
        elif not any(CHECKS[name](value) for name in names):
            bad = True
        elif names[0] in ("int", "index"):
            value = int(plain(value))
        elif names[0] == "seq" and loose(value):
            raise Undecided("the order of a set")
        result.append(value)
    if bad:
        raise Undecided("a null beside a wrong type") if null else Refused("wrong type")
    return None if null else result


@operator("$add", "any*")
def _add(*values):
    dates = [value for value in values if isinstance(value, datetime)]
    bound = bind(["num|time"] * len(values), values)
    if len(dates) > 1:
        raise Undecided("a null beside two dates") if bound is None else Refused("two dates")
    if bound is None:
        return None
    amount = total([value for value in values if is_number(value)])
    return shifted(dates[0], amount) if dates else amount


@operator("$subtract", "num|time num|time")
def _subtract(left, right):
    if isinstance(left, datetime):
        if isinstance(right, datetime):
            return Int64((left - right) // MILLISECOND)
        return shifted(left, arithmetic(lambda n: -n, right))
    if isinstance(right, datetime):
        raise Refused("a date subtracted from a number")
    if type_name(left) in ("int", "long") and isinstance(right, int):
        if not -(2**63) <= left - right < 2**63:
            raise Undecided("a difference beyond 64 bits")
    return arithmetic(lambda a, b: a - b, left, right)


@operator("$abs", "num")
def _abs(value):
    if isinstance(value, Int64) and value == -(2**63):
        raise Refused("too large an integer")
    return arithmetic(abs, value)


@operator("$divide", "num num")
def _divide(left, right):
    if plain(right) == 0:
        raise Refused("division by zero")
    left = float(left) if isinstance(left, int) and isinstance(right, int) else left
    return arithmetic(lambda a, b: a / b, left, right)


@operator("$mod", "num num")
def _mod(left, right):
    if plain(right) == 0:
        raise Refused("division by zero")
    return arithmetic(remainder, left, right)


@operator("$range", "index! index! index!?")
def _range(start, end, step=1):
    if step == 0:
        raise Refused("a step of zero")
    if abs(end - start) > 10_000 * abs(step):
        raise Undecided("an array as large as that")
    return list(range(start, end, step))


def _place(mode):
    def cut(value, place=0):
        if not -20 <= place <= 100:
            raise Refused("too many places")
        return rounded(value, place, mode)

    return cut


def simple(name, kinds, function):
    """Registers an operator that is a function of its arguments."""
    operator(name, kinds)(function)


simple("$multiply", "num*", lambda *values: arithmetic(lambda *n: math.prod(n), *values))
simple("$ceil", "num", lambda value: rounded(value, 0, ROUND_CEILING))
simple("$floor", "num", lambda value: rounded(value, 0, ROUND_FLOOR))
simple("$round", "num index?", _place(ROUND_HALF_EVEN))
simple("$trunc", "num index?", _place(ROUND_DOWN))
simple("$eq", "any any", lambda a, b: compare(a, b) == 0)
simple("$ne", "any any", lambda a, b: compare(a, b) != 0)
simple("$lt", "any any", lambda a, b: compare(a, b) < 0)
simple("$lte", "any any", lambda a, b: compare(a, b) <= 0)
simple("$gt", "any any", lambda a, b: compare(a, b) > 0)
simple("$gte", "any any", lambda a, b: compare(a, b) >= 0)
simple("$cmp", "any any", compare)
simple("$not", "any", lambda value: not truth(value))
simple("$type", "any", type_name)
simple("$isArray", "any", lambda value: isinstance(value, list))
simple("$concat", "str*", lambda *values: "".join(values))
simple("$toLower", "any", lambda value: ascii_of(value).lower())
simple("$toUpper", "any", lambda value: ascii_of(value).upper())
simple("$strLenCP", "str!", len)
simple("$size", "arr!", len)
simple("$in", "any arr!", lambda value, items: key(value) in [key(item) for item in items])
simple("$first", "seq", lambda items: items[0] if items else MISSING)
simple("$last", "seq", lambda items: items[-1] if items else MISSING)
simple("$reverseArray", "arr", lambda items: like(items, items[::-1]))
simple("$setUnion", "arr*", lambda *sets: Bag(distinct(item for s in sets for item in s)))
simple("$setIsSubset", "arr! arr!", lambda a, b: set(map(key, a)) <= set(map(key, b)))


def text_of(value):
    """The string that an operator on strings makes of another type."""
    if isinstance(value, (bool, list, dict, ObjectId)):
        raise Refused("no string")
    return "" if is_null(value) else to_string(value)


def ascii_of(value):
    """The string, if it has only letters whose case is settled."""
    if not text_of(value).isascii():
        raise Undecided("the case of letters beyond ASCII")
    return text_of(value)


@operator("$toString", "val")
def to_string(value):
    """The value written as a string."""
    if isinstance(value, (list, dict)):
        raise Refused("no string")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return date_text(value, "%Y-%m-%dT%H:%M:%S.%LZ")
    if isinstance(value, float):
        text = f"{value:.12g}"
        if float(text) != value or not re.fullmatch(r"-?\d+(\.\d+)?", text) or text == "-0":
            raise Undecided("the digits of a double")
        return text
    if isinstance(value, Decimal128):
        raise Undecided("the digits of a decimal")
    return str(value)


def _to_integer(bits):
    def convert(value):
        if isinstance(value, datetime) and bits == 64:
            return Int64((value - EPOCH) // MILLISECOND)
        if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            value = int(value)
        if isinstance(value, bool):
            value = int(value)
        if not is_number(value) or not math.isfinite(plain(value)):
            raise Refused("no integer")
        number = int(plain(value))
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise Refused("too large an integer")
        return integer(number, bits == 64)

    return convert


simple("$toInt", "val", _to_integer(32))
simple("$toLong", "val", _to_integer(64))


@operator("$toDouble", "val")
def _to_double(value):
    if isinstance(value, datetime):
        return float((value - EPOCH) // MILLISECOND)
    if isinstance(value, str):
        if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", value):
            return float(value)
        if re.fullmatch(r"[-+\d.]+", value) and re.search(r"\d", value):
            raise Undecided("an unusual number")
        raise Refused("no number")
    if is_number(value) or isinstance(value, bool):
        return float(plain(value))
    raise Refused("no number")


@operator("$toBool", "val")
def _to_bool(value):
    return truth(value)


@operator("$toDate", "val")
def _to_date(value):
    if isinstance(value, (datetime, ObjectId)):
        return instant(value)
    if isinstance(value, str):
        clock = r"(T\d\d:\d\d:\d\d(\.\d\d\d)?Z)?"
        if not re.fullmatch(r"\d{4}-[01]\d-[0-3]\d" + clock, value):
            raise Undecided("a date in an unusual format")
        try:
            result = datetime.fromisoformat(value)
        except ValueError:
            raise Undecided("a date in an unusual format") from None
        return result.replace(tzinfo=timezone.utc)
    if not is_number(value) or type_name(value) == "int":
        raise Refused("no date")
    return shifted(EPOCH, value)


@operator("$substrCP", "any index! index!")
def _substring(value, start, count):
    if start < 0 or count < 0:
        raise Refused("a negative index")
    return text_of(value)[start : start + count]


@operator("$split", "str str")
def _split(value, separator):
    if not separator:
        raise Refused("an empty separator")
    return value.split(separator)


@operator("$trim", input="str", chars="str?")
def _trim(input, chars=" \t\n\v\f\r\0"):
    return input.strip(chars)


def _between(size, start=0, end=None):
    if start < 0 or (end or 0) < 0:
        raise Refused("a negative index")
    return start, size if end is None else min(end, size)


@operator("$indexOfCP", "str str! index!? index!?")
def _index_of_text(value, part, *bounds):
    start, end = _between(len(value), *bounds)
    if not part:
        raise Undecided("the place of nothing")
    return value.find(part, start, end) if start <= end else -1


@operator("$indexOfArray", "seq any index!? index!?")
def _index_of_item(items, wanted, *bounds):
    start, end = _between(len(items), *bounds)
    return next((i for i in range(start, end) if compare(items[i], wanted) == 0), -1)


@operator("$strcasecmp", "any any")
def _compare_text(left, right):
    return compare(ascii_of(left).upper(), ascii_of(right).upper())


def check_regex(regex):
    """Refuses what is no regular expression."""
    try:
        re.compile("" if regex is None else regex)
    except (TypeError, re.error):
        raise Refused("no regular expression") from None


@operator("$regexMatch", input="any", regex="any", options="any?")
def _regex_match(input, regex, options=None):
    flags = [getattr(re, letter.upper()) for letter in options or ""]
    if not all(is_null(value) or isinstance(value, str) for value in (input, regex)):
        raise Refused("no string")
    if is_null(input) or is_null(regex):
        return False
    check_regex(regex)
    return bool(re.search(regex, input, sum(flags, re.NOFLAG)))


@operator("$slice", "seq index index?")
def _slice(items, first, count=None):
    if count is None:
        return items[:first] if first >= 0 else items[first:]
    if count <= 0:
        raise Refused("no elements asked for")
    start = max(0, len(items) + first) if first < 0 else first
    return items[start : start + count]


@operator("$arrayElemAt", "seq index")
def _element(items, place):
    return items[place] if -len(items) <= place < len(items) else MISSING


@operator("$concatArrays", "arr*")
def _concat_arrays(*arrays):
    return (Bag if any(map(loose, arrays)) else list)(item for one in arrays for item in one)


def check_order(order):
    """Refuses what is no direction, and no document of directions."""
    ways = order.values() if isinstance(order, dict) else [order]
    if not ways or any(way not in (1, -1) for way in ways):
        raise Refused("no direction")


@operator("$sortArray", input="arr", sortBy="any!")
def _sort_array(input, sortBy):
    if isinstance(sortBy, dict):
        values = {k: [walk(item, k.split(".")) for item in input] for k in sortBy}
        if any(isinstance(value, list) for column in values.values() for value in column):
            raise Undecided("sorting by arrays")
        return sort(input, sortBy)
    distinct(input)  # equal values of different types have no order
    return sorted(input, key=key, reverse=sortBy < 0)


@operator("$setIntersection", "arr*")
def _set_intersection(*sets):
    everything = distinct(item for one in sets for item in one)
    keys = [set(map(key, one)) for one in sets]
    return Bag(item for item in everything if all(key(item) in one for one in keys))


@operator("$setDifference", "arr arr")
def _set_difference(left, right):
    unwanted = set(map(key, right))
    return Bag(distinct(item for item in left if key(item) not in unwanted))


@operator("$setEquals", "arr! arr! arr!*")
def _set_equals(*sets):
    keys = [set(map(key, one)) for one in sets]
    return all(one == keys[0] for one in keys)


@operator("$mergeObjects", "any*")
def _merge(*values):
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
        if loose(values):
            raise Undecided("the order of a set")
    result = {}
    for value in values:
        if not is_null(value) and not isinstance(value, dict):
            raise Refused("no document")
        result |= value if isinstance(value, dict) else {}
    return result


@operator("$objectToArray", "obj")
def _object_to_array(value):
    return Bag({"k": name, "v": item} for name, item in value.items())


@operator("$arrayToObject", "seq")
def _array_to_object(items):
    result = {}
    pairs = bool(items) and isinstance(items[0], list)
    for item in items:
        if pairs and isinstance(item, list) and len(item) == 2:
            name, value = item
        elif not pairs and isinstance(item, dict) and item.keys() == {"k", "v"}:
            name, value = item["k"], item["v"]
        else:
            raise Refused("no pair")
        if not isinstance(name, str):
            raise Refused("no name")
        if not re.fullmatch("[A-Za-z0-9 _-]+", name):
            raise Undecided("an unusual name")
        result[name] = value
    return result


@operator("$getField", field="str!", input="any")
def _get_field(field, input):
    if isinstance(input, dict):
        return input.get(field, MISSING)
    return None if input is None else MISSING


def _date_part(name, function):
    @operator(name, date="date", timezone="str?")
    def part(date, timezone="UTC"):
        return function(local(date, timezone))


_date_part("$year", lambda date: date.year)
_date_part("$month", lambda date: date.month)
_date_part("$dayOfMonth", lambda date: date.day)
_date_part("$hour", lambda date: date.hour)
_date_part("$minute", lambda date: date.minute)
_date_part("$second", lambda date: date.second)
_date_part("$millisecond", lambda date: date.microsecond // 1000)
_date_part("$dayOfYear", lambda date: date.timetuple().tm_yday)
_date_part("$dayOfWeek", lambda date: date.isoweekday() % 7 + 1)
_date_part("$isoDayOfWeek", lambda date: date.isoweekday())
_date_part("$week", lambda date: int(date.strftime("%U")))
_date_part("$isoWeek", lambda date: date.isocalendar()[1])
_date_part("$isoWeekYear", lambda date: Int64(date.isocalendar()[0]))
DATE_PARTS = [name for name, entry in OPERATORS.items() if entry[0].__name__ == "part"]


@operator(
    "$dateTrunc", date="date", unit="str", binSize="int?", timezone="str?", startOfWeek="str?"
)
def _date_trunc(date, unit, binSize=1, timezone="UTC", startOfWeek="sunday"):
    unit, first_day, here = checked_unit(unit), weekday(startOfWeek), local(date, timezone)
    if binSize <= 0:
        raise Refused("no size")
    try:
        if unit in STEPS:
            origin, size = global_(datetime(2000, 1, 1), timezone), STEPS[unit] * binSize
            change = here.utcoffset() - local(origin, timezone).utcoffset()
            if change // MILLISECOND % size:
                raise Undecided("bins of hours across a clock change")
            return shifted(origin, (instant(date) - origin) // MILLISECOND // size * size)
        if unit in MONTHS:
            size = MONTHS[unit] * binSize
            months = ((here.year - 2000) * 12 + here.month - 1) // size * size
            return global_(at_month(2000 * 12 + months, 1, time()), timezone)
        origin, size = day_type(2000, 1, 1), binSize
        if unit == "week":
            origin += timedelta(days=(first_day - origin.weekday()) % 7)
            size *= 7
        day = origin + timedelta(days=(here.date() - origin).days // size * size)
        return global_(datetime.combine(day, time()), timezone)
    except OverflowError:
        raise Undecided("a date outside of the years 1 to 9999") from None


@operator("$dateAdd", startDate="date", unit="str", amount="int", timezone="str?")
def _date_add(startDate, unit, amount, timezone="UTC"):
    unit, here = checked_unit(unit), local(startDate, timezone).replace(tzinfo=None)
    if unit in STEPS:
        return shifted(instant(startDate), amount * STEPS[unit])
    if unit in MONTHS:
        months = here.year * 12 + here.month - 1 + amount * MONTHS[unit]
        return global_(at_month(months, here.day, here.time()), timezone)
    days = amount * (7 if unit == "week" else 1)
    return global_(shifted(here, days * 24 * STEPS["hour"]), timezone)


@operator("$dateSubtract", startDate="date", unit="str", amount="int", timezone="str?")
def _date_subtract(startDate, unit, amount, timezone="UTC"):
    return _date_add(startDate, unit, -amount, timezone)


@operator(
    "$dateDiff", startDate="date", endDate="date", unit="str", timezone="str?", startOfWeek="str?"
)
def _date_diff(startDate, endDate, unit, timezone="UTC", startOfWeek="sunday"):
    unit, first_day = checked_unit(unit), weekday(startOfWeek)
    dates = [local(date, timezone) for date in (startDate, endDate)]
    if unit in STEPS:
        if dates[0].utcoffset() != dates[1].utcoffset() and unit in ("hour", "minute"):
            raise Undecided("hours across a clock change")
        spans = [date.replace(tzinfo=None) - datetime(1970, 1, 1) for date in dates]
        if unit in ("second", "millisecond"):
            spans = [date - EPOCH for date in dates]
        counts = [span // MILLISECOND // STEPS[unit] for span in spans]
    elif unit in MONTHS:
        counts = [(date.year * 12 + date.month - 1) // MONTHS[unit] for date in dates]
    else:
        counts = [date.date().toordinal() for date in dates]
        if unit == "week":
            counts = [(count - 1 - first_day) // 7 for count in counts]
    return Int64(counts[1] - counts[0])


@operator("$dateToString", date="any", format="any?", timezone="any?", onNull="any?")
def _date_to_string(date, format="%Y-%m-%dT%H:%M:%S.%LZ", timezone="UTC", onNull=None):
    texts = [value for value in (format, timezone) if not is_null(value)]
    wrong = not all(isinstance(value, str) for value in texts)
    if is_null(date):
        if wrong:
            raise Undecided("a null beside a wrong type")
        return onNull
    if wrong or not isinstance(date, (datetime, ObjectId)):
        raise Undecided("a null beside a wrong type") if len(texts) < 2 else Refused("wrong type")
    return date_text(local(date, timezone), format) if len(texts) == 2 else None


@operator("$dateToParts", date="date", timezone="str?", iso8601="bool?")
def _date_to_parts(date, timezone="UTC", iso8601=False):
    here = local(date, timezone)
    result = dict(year=here.year, month=here.month, day=here.day)
    if iso8601:
        result = dict(zip(("isoWeekYear", "isoWeek", "isoDayOfWeek"), here.isocalendar()))
    clock = dict(hour=here.hour, minute=here.minute, second=here.second)
    return result | clock | dict(millisecond=here.microsecond // 1000)


CLOCK = dict(hour="index?", minute="index?", second="index?", millisecond="index?")
PARTS = dict(year="index?", month="index?", day="index?", timezone="str?")
ISO_PARTS = dict(isoWeekYear="index?", isoWeek="index?", isoDayOfWeek="index?")


@operator("$dateFromParts", **PARTS, **ISO_PARTS, **CLOCK)
def _date_from_parts(timezone="UTC", **parts):
    if ("year" in parts) == bool(ISO_PARTS.keys() & parts):
        raise Refused("neither one calendar nor the other")
    year = parts.get("year", parts.get("isoWeekYear"))
    if not 1 <= year <= 9999 or any(not -32768 <= part <= 32767 for part in parts.values()):
        raise Refused("a part that is out of its range")
    try:
        if "year" in parts:
            date = at_month(year * 12 + parts.get("month", 1) - 1, 1, time())
            date += timedelta(days=parts.get("day", 1) - 1)
        else:
            date = datetime.fromisocalendar(year, 1, 1)
            date += timedelta(weeks=parts.get("isoWeek", 1) - 1)
            date += timedelta(days=parts.get("isoDayOfWeek", 1) - 1)
        date += timedelta(**{name + "s": parts[name] for name in CLOCK if name in parts})
    except OverflowError:
        raise Undecided("a date outside of the years 1 to 9999") from None
    return global_(date, timezone)


# ---- accumulators ----


def deviation(values, sample):
    """The standard deviation of the numbers among the values."""
    numbers = [float(plain(value)) for value in values if is_number(value)]
    if len(numbers) <= sample:
        return None
    if not all(map(math.isfinite, numbers)):
        raise Undecided("the deviation of infinite numbers")
    result = statistics.stdev(numbers) if sample else statistics.pstdev(numbers)
    if result and (result < 1e-4 * max(map(abs, numbers)) or result > 1e12):
        raise Undecided("a deviation whose last digits matter")
    # Sums in one pass, as databases make them, may end just beside a number at which functions
    # such as $round and $floor jump.
    if abs(2 * result - round(2 * result)) < 1e-9 and result != one_pass(numbers, sample):
        raise Undecided("a deviation beside a jump of rounding")
    return result


def one_pass(numbers, sample):
    """The standard deviation by Welford's method, in the order of the numbers."""
    mean = squares = 0.0
    for count, number in enumerate(numbers, 1):
        step = number - mean
        mean += step / count
        squares += step * (number - mean)
    return math.sqrt(squares / (len(numbers) - sample))


def average(values):
    """The mean of the numbers among the values."""
    numbers = [value for value in values if is_number(value)]
    return _divide(total(numbers), len(numbers)) if numbers else None


def extreme(values, sign):
    """The smallest (1) or largest (-1) value that is not null."""
    values = distinct(value for value in values if not is_null(value))
    result = None
    for value in values:
        if result is None or compare(value, result) * sign < 0:
            result = value
    return result


def end_of(values, place):
    """The first (0) or last (-1) value of a group."""
    if isinstance(values, Bag) and not all(same(value, values[0]) for value in values):
        raise Undecided("the first of documents without an order")
    return None if is_null(values[place]) else values[place]


ACCUMULATORS = {
    "$sum": lambda values: total([value for value in values if is_number(value)]),
    "$avg": average,
    "$min": lambda values: extreme(values, 1),
    "$max": lambda values: extreme(values, -1),
    "$stdDevPop": lambda values: deviation(values, False),
    "$stdDevSamp": lambda values: deviation(values, True),
    "$first": lambda values: end_of(values, 0),
    "$last": lambda values: end_of(values, -1),
    "$push": lambda values: like(values, [v for v in values if v is not MISSING]),
    "$addToSet": lambda values: Bag(distinct(v for v in values if v is not MISSING)),
    "$count": len,
}


def _as_expression(function):
    def of_operands(*values):
        return function(values[0] if len(values) == 1 and isinstance(values[0], list) else values)

    return of_operands


for _name in ["$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp"]:
    simple(_name, "any*", _as_expression(ACCUMULATORS[_name]))
