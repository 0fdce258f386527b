"""Random documents, and random pipelines that make sense for them.

A grammar gives for each kind of value the expressions that make one.  Where the result of a stage
depends on the order of documents, the pipeline gets a `$sort` by something unique before it.
"""

from datetime import datetime, timedelta, timezone

from bson import Decimal128, Int64, ObjectId

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

CONSTANTS = {
    "num": [0, 1, 2, 3, -1, -7, 10, 100, 2**31 - 1, Int64(5), Int64(2**40), 0.0, -2.5, 0.5, 1.25]
    + [1e10, 1e15, 1e18, Decimal128("2.5"), Decimal128("-10"), -(2**31), 2.0**53]
    + [Int64(2**53 + 1), Int64(2**62), Int64(-(2**63)), Int64(2**63 - 1), 2147483648.0],
    "str": ["", "a", "b", "abc", "Abc", "ABC", "10", "-3", "2.5", "a,b,c", " pad ", "x-1", "äß€😀"],
    "bool": [True, False],
    "date": [
        datetime(2024, 2, 29, 23, 59, 59, 999000, timezone.utc),
        datetime(2021, 1, 3, 12, 30, tzinfo=timezone.utc),
        datetime(2020, 12, 31, 23, 30, 0, 5000, timezone.utc),
        datetime(1999, 12, 31, tzinfo=timezone.utc),
        datetime(1969, 7, 20, 20, 17, 40, tzinfo=timezone.utc),
    ],
    "nums": [[], [1], [3, 1, 2], [1, 2, 2, 5], [0, -2.5, Int64(4)]],
    "arr": [[], ["a", "b"], [1, "a", None], [[1], [2, 3]], [True, 1]],
    "docs": [[], [{"k": 1}], [{"k": 2, "w": "a"}, {"k": 1, "w": "b"}]],
    "obj": [{"x": 1}, {"x": 2, "y": "b"}, {}],
    "id": [ObjectId("5f0000000000000000000001"), ObjectId("60c72b2f9b1d8e0001a1b2c3")],
    "zone": ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30", "-0300", "+02"],
    "unit": ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"],
    "place": [0, 0, 1, 2, 5, -1, -2, 1.0],
}  # fmt: skip
FIELDS = {
    "num": ["a", "b", "o.x", "h.w.x"], "str": ["s", "t", "o.y"], "bool": ["f"], "date": ["d", "e"],
    "nums": ["l", "h.l"], "docs": ["m"], "arr": ["l", "m", "n", "m.k", "m.w"], "obj": ["o"],
    "id": ["i"], "any": ["p", "h"],
}  # fmt: skip
SORTS = ["num", "str", "bool", "date", "nums", "arr", "docs", "obj", "id"]


def random_number(rnd):
    """A number of any type."""
    wide = [Int64(rnd.randint(-(2**45), 2**45)), float(rnd.randint(-(10**12), 10**12))]
    small = [rnd.randint(-20, 20), rnd.randint(-80, 80) / 4, Int64(rnd.randint(-9, 9))]
    return rnd.choice([*small, *small, *wide, *CONSTANTS["num"], rnd.randint(0, 10)])


def random_value(rnd, kind):
    """A value of one of the kinds of the grammar."""
    if kind == "any":
        return random_value(rnd, rnd.choice(SORTS))
    if kind == "num":
        return random_number(rnd)
    if kind == "date" and rnd.random() < 0.7:
        return EPOCH + timedelta(milliseconds=rnd.randint(0, 2_000_000_000_000))
    if kind == "nums" and rnd.random() < 0.6:
        return [
            rnd.choice([rnd.randint(-5, 9), random_number(rnd)]) for _ in range(rnd.randint(0, 4))
        ]
    if kind == "arr" and rnd.random() < 0.5:
        return [random_value(rnd, rnd.choice(SORTS)) for _ in range(rnd.randint(0, 3))]
    if kind == "docs" and rnd.random() < 0.6:
        return [random_value(rnd, "obj") for _ in range(rnd.randint(1, 3))]
    if kind == "obj" and rnd.random() < 0.7:
        inner = {"k": random_number(rnd), "w": rnd.choice(CONSTANTS["str"])}
        inner |= {"x": random_number(rnd), "y": rnd.choice(CONSTANTS["str"])}
        return {name: value for name, value in inner.items() if rnd.random() < 0.7}
    return rnd.choice(CONSTANTS[kind])


def random_document(rnd, odd=0.03):
    """A document with all kinds of fields, of which some are null, missing or of another kind."""
    result = {"_id": 0}
    for kind, paths in FIELDS.items():
        for path in paths:
            chance = rnd.random()
            if "." not in path and path not in result and chance > 0.08:
                other = chance > 1 - odd
                result[path] = (
                    random_value(rnd, "any" if other else kind) if chance > 0.15 else None
                )
    if rnd.random() < 0.7:
        inner = {"l": random_value(rnd, "nums"), "w": {"x": random_number(rnd)}}
        result["h"] = {name: value for name, value in inner.items() if rnd.random() < 0.8}
    return {name: result[name] for name in sorted(result)}


# ---- random expressions ----

PARTS = ["year", "month", "dayOfMonth", "hour", "minute", "second", "millisecond", "dayOfYear"]
PARTS += ["dayOfWeek", "week", "isoWeek", "isoWeekYear", "isoDayOfWeek"]
DAYS = ("sunday", "monday", "Wed", "fri")
ZONE = ("zone", "zone", "zone", "zone", None)
MOMENT = {"date": "date", "timezone?": ZONE}
ALL_NUMBERS = ({"$add": ["$$this", "num"]}, {"$multiply": ["$$this", 2]}, {"$abs": "$$this"})
TESTS = ({"$gt": ["$$this", "num"]}, {"$lte": ["$$this", 2]}, {"$ne": ["$$this", "any"]})
FORMATS = (None, "%Y-%m-%d", "%d.%m.%Y %H:%M:%S.%L", "%G-W%V-%u", "%j/%U/%w %z", "%Y%%%Z")
COMPARISONS = ("$eq", "$ne", "$lt", "$lte", "$gt", "$gte")
AMOUNT = (0, 1, -1, 5, 13, Int64(-40), 3.0)
ITEM = ({"a": "$$item.k"}, "$$item.w", {"$ifNull": ["$$item.x", "num"]}, "$$item")
OTHER, REGEX = ("none", "$s"), ("a", "^a", "B$", "[0-9]+", "^$")
SUM, CHAIN = {"$add": ["$$value", "$$this"]}, {"$concatArrays": ["$$value", ["$$this"]]}
LETTERS = ("num", "str", "bool", "date", "arr", "obj")

DAY = {"$ifNull": ["$d", "$e", CONSTANTS["date"][0]]}
TEXT, LIST, NUMBER = {"$ifNull": ["$s", "x"]}, {"$ifNull": ["$l", [1]]}, {"$ifNull": ["$a", 1]}
FAULTY = [  # what is refused when it is evaluated
    {"$year": {"date": DAY, "timezone": ("Nowhere/City", 5)}},
    {"$substrCP": [TEXT, (-1, 1.5), 2]},
    {"$dateTrunc": {"date": DAY, "unit": ("fortnight", "day"), "binSize": (0, -1, 1.5)}},
    {"$dateTrunc": {"date": DAY, "unit": "week", "startOfWeek": "someday"}},
    {"$split": [TEXT, ""]},
    {"$dateAdd": {"startDate": DAY, "unit": ("day", "days"), "amount": (1.5, "a")}},
    {"$dateToString": {"date": DAY, "format": ("%Q", "%", 5)}},
    {"$range": ["$_id", 5, (0, 1.5)]},
    {"$substrCP": [TEXT, 1, (-1, None)]},
    {"$indexOfCP": [TEXT, "a", (-1, 0.5)]},
    {"$size": TEXT},
    {"$slice": [LIST, 1, (0, -1)]},
    {"$slice": [LIST, (1.5, "a")]},
    {"$concat": [TEXT, NUMBER]},
    {"$arrayElemAt": [LIST, (1.5, "a", Int64(2**40))]},
    {"$round": [NUMBER, (1.5, 101, -21)]},
    {"$sortArray": {"input": LIST, "sortBy": (2, 0, "a", {"a": 3})}},
    {"$divide": [NUMBER, 0]},
    {"$filter": {"input": LIST, "cond": True, "limit": (0, -1)}},
    {"$mod": [NUMBER, 0]},
    {"$regexMatch": {"input": TEXT, "regex": ("(", 5)}},
    {"$trim": {"input": TEXT, "chars": 5}},
    {"$dateFromParts": {"year": (0, 10000), "day": "$_id"}},
    {"$in": [1, TEXT]},
    {"$abs": TEXT},
    {"$dateFromParts": {"year": 2000, "day": {"$add": ["$_id", 40000]}}},
    {"$add": [DAY, DAY]},
    {"$subtract": [NUMBER, DAY]},
    {"$setUnion": [LIST, NUMBER]},
    {"$setIsSubset": [LIST, "$none"]},
    {"$toInt": DAY},
    {"$toDate": TEXT},
    {"$arrayToObject": [[TEXT]]},
    {"$mergeObjects": [TEXT]},
    {"$strLenCP": "$none"},
    {"$multiply": [NUMBER, TEXT]},
    {"$toDouble": LIST},
    {"$first": TEXT},
    {"$map": {"input": TEXT, "in": 1}},
    {"$reduce": {"input": TEXT, "initialValue": 1, "in": 1}},
    {"$dateDiff": {"startDate": DAY, "endDate": TEXT, "unit": "day"}},
    {"$objectToArray": LIST},
]

# A shape is the name of a kind, a list or dict of shapes (`?` marks names that may be left out),
# a tuple of shapes to choose from, or a constant.
ANYWHERE = [
    {"$cond": ["bool", "SAME", "SAME"]},
    {"$cond": {"if": "any", "then": "SAME", "else": "SAME"}},
    {"$ifNull": ["SAME", "SAME"]},
    {"$ifNull": ["any", "any", "SAME"]},
    {"$switch": {"branches": [{"case": "bool", "then": "SAME"}], "default?": "SAME"}},
    {"$let": {"vars": {"v": "SAME"}, "in": ("$$v", {"$ifNull": ["$$v", "SAME"]})}},
    {"$arrayElemAt": [["SAME", "SAME"], (0, 1, -1, 2, "num")]},
    {"$first": [["SAME", "SAME"]]},
    {"$getField": {"field": "z", "input": {"y": "any", "z": "SAME"}}},
    {"$let": {"vars": {"v": "$$ROOT"}, "in": ("$$v.a", "$$CURRENT.b", "$$v.m.k", "$$REMOVE")}},
    {"$ifNull": ["$$ROOT.q", "SAME"]}, {"$cond": ["bool", "$$REMOVE", "SAME"]},
]  # fmt: skip
GRAMMAR = {
    "num": [
        {"$add": ["num", "num"]}, {"$add": ["num", "num", "num"]}, {"$subtract": ["num", "num"]},
        {"$subtract": ["date", "date"]}, {"$multiply": ["num", "num"]},
        {"$divide": ["num", "num"]}, {"$mod": ["num", "num"]}, {"$abs": "num"}, {"$ceil": "num"},
        {"$floor": ["num"]}, {"$round": ["num", "place"]}, {"$trunc": ["num", "place"]},
        {"$round": "num"}, {"$trunc": "num"}, {"$cmp": ["any", "any"]},
        {"$size": {"$ifNull": [("arr", "nums", "docs", "set"), []]}}, {"$size": "arr"},
        {"$strLenCP": {"$ifNull": ["str", "x"]}}, {"$indexOfCP": ["str", "str", (0, 1, 2)]},
        {"$indexOfCP": ["str", ("a", "b", "€")]}, {"$strcasecmp": ["str", "str"]},
        {"$indexOfArray": [("arr", "nums"), "any"]}, {"$indexOfArray": ["nums", "num", 1, 3]},
        {"$toInt": ("num", "str", "bool")}, {"$toLong": ("num", "str", "date")},
        {"$toDouble": ("num", "str", "bool", "date")}, {"$sum": "nums"}, {"$avg": ["num", "num"]},
        {"$max": ["num", "num", "num"]}, {"$min": "nums"}, {"$stdDevPop": "nums"},
        {"$stdDevSamp": ["num", "num", "num"]}, {"$last": "nums"}, {"$first": "nums"},
        {"$arrayElemAt": ["nums", (0, 1, -1, -2, 7)]},
        {"$reduce": {"input": "nums", "initialValue": "num", "in": SUM}},
        "clock", "clock",
    ],
    "clock": [
        *[tuple({"$" + part: shape} for part in PARTS) for shape in (MOMENT, MOMENT, "date")],
        {"$dateDiff": {"startDate": "date", "endDate": "date", "unit": "unit", "timezone?": ZONE,
                       "startOfWeek?": DAYS}},
        {"$subtract": ["date", "date"]},
    ],
    "str": [
        {"$concat": ["str", "str"]}, {"$toLower": "str"}, {"$toUpper": "str"},
        {"$concat": ["str", "-", {"$toString": ("num", "bool", "date")}]}, {"$toLower": "any"},
        {"$substrCP": ["str", (0, 1, 2), (0, 1, 3, 20)]}, {"$trim": {"input": "str"}},
        {"$trim": {"input": "str", "chars?": ("a", "abc", " -", None)}}, {"$toString": "any"},
        {"$type": "any"}, {"$type": "num"}, {"$toString": "num"}, {"$toString": "id"},
        {"$toString": "date"},
        {"$arrayElemAt": [{"$split": ["str", ("a", ",", "b")]}, (0, 1, -1)]},
        {"$dateToString": {"date": "date", "format": FORMATS, "timezone?": ZONE, "onNull?": OTHER}},
        {"$dateToString": {"date": "date"}}, {"$literal": "$a"},
        {"$reduce": {"input": {"$split": ["str", ","]}, "initialValue": "",
                     "in": {"$concat": ["$$this", "$$value"]}}},
    ],
    "bool": [
        *[tuple({op: [kind, kind]} for op in COMPARISONS) for kind in ("num", "any", "any")],
        {"$and": ["any", "bool"]}, {"$or": ["bool", "any"]}, {"$not": ["bool"]}, {"$not": "any"},
        {"$and": ["bool", "bool", "bool"]}, {"$in": ["num", {"$ifNull": ["nums", []]}]},
        {"$in": ["any", ["any", "any", "any"]]}, {"$in": ["any", "arr"]},
        {"$regexMatch": {"input": "str", "regex": REGEX, "options?": ("i", None)}},
        {"$isArray": "any"}, {"$isArray": "arr"}, {"$toBool": "any"},
        {"$setEquals": [{"$ifNull": [("nums", "set"), []]}, ("nums", "set")]},
        {"$setIsSubset": ["nums", {"$ifNull": ["nums", []]}]},
    ],
    "date": [
        {"$add": ["date", "num"]}, {"$subtract": ["date", (1000, "num", Int64(86400000))]},
        {"$dateTrunc": {"date": "date", "unit": "unit", "binSize?": (1, 2, 3, 7, 15, None),
                        "timezone?": ZONE, "startOfWeek?": DAYS}},
        {"$dateAdd": {"startDate": "date", "unit": "unit", "amount": AMOUNT, "timezone?": ZONE}},
        {"$dateSubtract": {"startDate": "date", "unit": "unit", "amount": AMOUNT,
                           "timezone?": ZONE}},
        {"$dateFromParts": {"year": (1999, 2020, 2024), "month?": (1, 2, 0, 12, 14, "num"),
                            "day?": (1, 29, 31, 0, 40, -1), "hour?": (0, 23, 25), "minute?": 59,
                            "second?": 61, "millisecond?": 1001, "timezone?": ZONE}},
        {"$dateFromParts": {"isoWeekYear": {"$year": "date"}, "isoWeek?": (1, 53, 20),
                            "isoDayOfWeek?": (1, 7, 8), "hour?": (0, 12), "timezone?": ZONE}},
        {"$toDate": ("date", "id", {"$toLong": "num"}, {"$toString": "date"}, "num", "bool")},
        {"$toDate": ("2021-05-06", "2021-05-06T07:08:09.010Z", "2020-12-31T23:59:59Z")},
        {"$max": ["date", "date"]}, {"$min": ["date", "date"]},
    ],
    "nums": [
        {"$map": {"input": "nums", "in": ALL_NUMBERS}},
        {"$filter": {"input": "nums", "cond": TESTS}},
        {"$filter": {"input": "nums", "cond": TESTS, "limit?": (1, 2, None, "num")}},
        ["num", "num"],
        {"$slice": ["nums", (1, 2, -1, -2, 0)]}, {"$slice": ["nums", (0, 1, -2, 9), (1, 2)]},
        {"$concatArrays": ["nums", "nums"]}, {"$range": [0, (0, 3, 5, "num")]},
        {"$range": [(5, 0, -2), (0, 4, -7), (-2, 1, 3)]}, {"$reverseArray": "nums"},
        {"$sortArray": {"input": "nums", "sortBy": (1, -1)}},
    ],
    "arr": [
        "nums", "docs", ["any", "any"], {"$reverseArray": "arr"},
        {"$concatArrays": ["arr", "nums"]},
        {"$sortArray": {"input": "arr", "sortBy": (1, -1)}}, {"$split": ["str", ("a", ",", " ")]},
        {"$slice": ["arr", (1, -1, 2)]},
        {"$filter": {"input": "arr", "cond": {"$ne": ["$$this", "any"]}}},
        {"$map": {"input": "arr", "in": ({"$type": "$$this"}, {"$ifNull": ["$$this", "any"]})}},
        {"$map": {"input": "docs", "as": "item", "in": ITEM}}, {"$literal": ["$a", 1]},
        {"$sortArray": {"input": {"$objectToArray": "obj"}, "sortBy": {"k": (1, -1)}}},
        {"$reduce": {"input": "$n", "initialValue": [], "in": CHAIN}},
    ],
    "set": [
        {"$setUnion": [("nums", "set"), "nums"]}, {"$setIntersection": ["nums", ("nums", "arr")]},
        {"$setDifference": [("nums", "set"), "nums"]}, {"$setUnion": ["arr", "arr"]},
        {"$map": {"input": "set", "in": ALL_NUMBERS}}, {"$objectToArray": "obj"},
    ],
    "docs": [
        {"$map": {"input": "docs", "as": "item", "in": {"a": ("$$item.k", "any"), "b": ITEM}}},
        {"$filter": {"input": "docs", "as": "item", "cond": {"$gte": ["$$item.k", "num"]}}},
        {"$sortArray": {"input": "docs", "sortBy": ({"k": 1}, {"w": -1, "k": 1}, {"x": -1})}},
        {"$concatArrays": ["docs", "docs"]}, [{"k": "num", "w": "str"}],
        {"$map": {"input": "nums", "in": {"k": "$$this"}}},
    ],
    "obj": [
        {"$mergeObjects": ["obj", "obj"]}, {"x": "num", "y": "str"},
        {"$mergeObjects": ("obj", "docs")},
        {"$arrayToObject": [[["q", "any"], ["r", "num"], ["q", "any"]]]},
        {"$arrayToObject": [[{"k": "k", "v": "any"}, {"k": "x", "v": "num"}]]},
        {"$arrayToObject": {"$objectToArray": "obj"}},
        {"$dateToParts": MOMENT | {"iso8601?": (True, False, None)}},
        {"$arrayElemAt": ["docs", (0, -1)]}, {"$mergeObjects": [{"x": "any"}, "obj", {"y": "any"}]},
    ],
    "any": [*LETTERS, *LETTERS, "id", "zone"],
    "id": [], "zone": [], "unit": [], "place": [],
}  # fmt: skip


BROKEN = [  # what is refused for its form
    {"$limit": 0}, {"$limit": -1}, {"$limit": 1.5}, {"$limit": "a"}, {"$skip": -1}, {"$skip": "a"},
    {"$sort": {"a": 2}}, {"$sort": {}}, {"$sort": "a"}, {"$unwind": "a"}, {"$count": ""},
    {"$count": 1},
    {"$unwind": {"path": "$a", "x": 1}}, {"$unwind": {"path": "$a", "includeArrayIndex": "$i"}},
    {"$count": "$a"}, {"$count": "a.b"}, {"$project": {}}, {"$project": {"a": 1, "b": 0}},
    {"$project": {"a": 0, "b": "$c"}}, {"$project": {"o": 1, "o.x": 1}},
    {"$set": {"o": 1, "o.x": 2}},
    {"$group": {"u": {"$sum": 1}}}, {"$group": {"_id": None, "u": 1}}, {"$project": "a"},
    {"$match": 1},
    {"$group": {"_id": None, "u": {"$nope": 1}}}, {"$group": {"_id": None, "u.v": {"$sum": 1}}},
    {"$group": {"_id": None, "u": {"$sum": 1, "$avg": 1}}}, {"$group": 1}, {"$facet": {}},
    {"$group": {"_id": None, "u": {"$count": 1}}}, {"$facet": {"a": [{"$facet": {"b": []}}]}},
    {"$bucket": {"groupBy": "$a", "boundaries": [1]}}, {"$bucket": {"groupBy": "$a"}},
    {"$bucket": {"groupBy": "$a", "boundaries": [2, 1], "default": 9}}, {"$nope": 1},
    {"$unset": ""},
    {"$bucket": {"groupBy": "$a", "boundaries": [1, "a"], "default": 9}}, {"$match": {"$nope": 1}},
    {"$bucket": {"groupBy": "$a", "boundaries": [1, 5], "default": 3}}, {"$match": {"$and": []}},
    {"$bucket": {"groupBy": "a", "boundaries": [1, 5], "default": 9}}, {"$sortByCount": "a"},
    {"$match": {"a": {"$nope": 1}}}, {"$match": {"a": {"$in": 1}}}, {"$set": {"x": {"$nope": 1}}},
    {"$set": {"x": {"$abs": ["$a", "$a"]}}}, {"$set": {"x": {"$cond": ["$a", 2]}}},
    {"$unset": ["$a"]},
    {"$set": {"x": "$$nope"}}, {"$set": {"x": {"$abs": "$a", "$ceil": "$a"}}},
    {"$replaceRoot": "$o"},
    {"$set": {"x": {"$filter": {"input": "$l"}}}}, {"$set": {"x": {"$let": {"vars": {"a": 1}}}}},
    {"$set": {"x": {"$switch": {"branches": []}}}}, {"$set": {"x": {"$ifNull": ["$a"]}}},
    {"$facet": 1},
    {"$set": {"x": {"$year": {"timezone": "UTC"}}}},
    {"$set": {"x": {"$year": {"date": "$d", "x": 1}}}},
    {"$set": {"x": {"$dateAdd": {"startDate": "$d", "unit": "day"}}}},
    {"$set": {"x": {"$eq": ["$a"]}}},
    {"$set": {"x": {"$map": {"input": "$l", "in": "$$that"}}}}, {"$set": {}}, {"$set": {"": 1}},
    {"$limit": 1, "$skip": 1}, {"$set": {"x": {"$dateFromParts": {"month": 1}}}},
    {"$set": {"x": "$"}},
]  # fmt: skip


class Maker:
    """Makes the stages of one pipeline, and keeps account of the fields there are."""

    def __init__(self, rnd, odd, depth=3):
        self.rnd, self.odd, self.depth = rnd, odd, depth
        self.fields = {kind: list(paths) for kind, paths in FIELDS.items()}
        self.order, self.sorted = {"_id": 1}, False

    def leaf(self, kind):
        """A field or a constant of the kind."""
        paths = self.fields.get(kind)
        if kind == "any" and self.rnd.random() < 0.8:
            paths = [path for every in self.fields.values() for path in every]
        if self.rnd.random() < self.odd:
            paths = ["_id", "o", "nothing", "m.k", "m.x", "n", "s", "a"]
        if paths and (self.rnd.random() < 0.85 or kind in ("docs", "obj")):
            return "$" + self.rnd.choice(paths)
        kind = {"set": "nums", "clock": "num", "any": self.rnd.choice(SORTS)}.get(kind, kind)
        return random_value(self.rnd, kind)

    def make(self, kind, depth):
        """An expression of the kind, nested to the depth."""
        if depth <= 0 or not GRAMMAR.get(kind) or self.rnd.random() < 0.1:
            return self.leaf(kind)
        general = self.rnd.random() < 0.12 and kind != "set"
        return self.fill(self.rnd.choice(ANYWHERE if general else GRAMMAR[kind]), depth, kind)

    def fill(self, shape, depth, kind=None):
        """An expression of the shape."""
        if isinstance(shape, tuple):
            return self.fill(self.rnd.choice(shape), depth, kind)
        if isinstance(shape, list):
            return [self.fill(part, depth, kind) for part in shape]
        if isinstance(shape, dict):
            if kind and self.rnd.random() < self.odd / 10:
                return self.fill(self.rnd.choice(FAULTY), depth)
            chosen = [name for name in shape if name[-1] != "?" or self.rnd.random() < 0.5]
            result = {name.rstrip("?"): self.fill(shape[name], depth, kind) for name in chosen}
            for name, operand in result.items():
                if (
                    name[0] == "$"
                    and isinstance(operand, list)
                    and isinstance(shape[name], (str, tuple))
                ):
                    result[name] = [operand]  # one operand which is an array
            return result
        if shape == "SAME":
            return self.make(kind, depth - 1)
        if isinstance(shape, str) and shape in GRAMMAR:
            return self.make(shape, depth - 1)
        return shape

    def operator(self, kind):
        """An expression of the kind which is no plain constant or document."""
        while True:
            result = self.make(kind, self.depth)
            if isinstance(result, dict) and any(name.startswith("$") for name in result):
                return result
            if isinstance(result, str) and result.startswith("$"):
                return result

    def kind(self):
        """A kind for a new field."""
        kinds = ["num", "num", "str", "bool", "date", "nums", "arr", "docs", "obj", "any", "set"]
        return self.rnd.choice(kinds)

    def known(self):
        """A field there is."""
        return self.rnd.choice(sum(self.fields.values(), []) or ["_id"])

    def sort_first(self, stages):
        """Brings the documents into a total order, if there is one."""
        if not self.sorted and self.order:
            stages.append({"$sort": dict(self.order)})
            self.sorted = True
        return self.sorted

    # The following methods return the argument of the stage of their name.

    def match(self):
        """Conditions on fields of known kinds."""
        result = {}
        for _ in range(self.rnd.choice([1, 1, 2])):
            kind = self.rnd.choice([kind for kind in SORTS if self.fields.get(kind)] or ["num"])
            path = self.rnd.choice(self.fields.get(kind) or ["_id"])
            value = random_value(self.rnd, kind)
            shapes = [value, {"$eq": value}, {"$ne": value}, {"$exists": self.rnd.random() < 0.5}]
            shapes += [{"$in": [value, random_value(self.rnd, kind)]}, {"$nin": [value, None]}]
            if kind in ("num", "str", "date", "bool"):
                op = self.rnd.choice(["$gt", "$gte", "$lt", "$lte"])
                shapes += [{op: value}] * 3 + [None, {"$not": {op: value}}]
            if kind in ("nums", "arr"):
                shapes += [{"$elemMatch": {"$gte": random_number(self.rnd)}}, {"$size": 2}]
                shapes += [{"$gt": random_number(self.rnd)}, random_number(self.rnd)]
            if kind == "docs":
                shapes += [{"$elemMatch": {"k": random_number(self.rnd)}}, {"$ne": []}]
            shapes += [{"$type": self.rnd.choice(["int", "number", "string", "array", "null"])}]
            result[path] = self.rnd.choice(shapes)
        chance = self.rnd.random()
        if chance < 0.25:
            return {"$expr": self.operator("bool")}
        if chance < 0.4:
            parts = [{path: value} for path, value in result.items()]
            return {self.rnd.choice(["$and", "$or", "$nor"]): parts}
        return result

    def computed(self):
        """New fields."""
        names = self.rnd.sample(["a", "q", "x", "y", "z"], self.rnd.choice([1, 2, 3, 4]))
        kinds = {name: self.kind() for name in sorted(names)}
        result = {name: self.operator(kind) for name, kind in kinds.items()}
        if self.rnd.random() < 0.15:
            deep = self.rnd.choice(["o.x", "o.q", "m.q", "h.w.x", "h.w.y", "l.q", "q2.r.s"])
            result[deep] = {"$ifNull": [self.make("num", 1), 0]}
        if self.rnd.random() < 0.1:
            result["h"] = {"w": {"x": "$a", "z": {"$literal": 1}}}
            result = {name: value for name, value in result.items() if name[:2] != "h."}
        for name, kind in kinds.items():
            self.fields.setdefault(kind, []).append(name)
        return result

    def project(self):
        """An inclusion, an exclusion, or new fields with some of the old ones."""
        chance = self.rnd.random()
        paths = {self.known() for _ in range(self.rnd.choice([1, 2, 3]))}
        paths |= (
            {self.rnd.choice(["m.k", "h.w", "n.x", "h.l", "m.x"])}
            if chance * 10 % 1 < 0.3
            else set()
        )
        paths -= {"_id"}
        paths = {a for a in paths if not any(a.startswith(b + ".") for b in paths)}
        if chance < 0.3 and paths:
            return {path: self.rnd.choice([0, False]) for path in sorted(paths)}
        result = {path: self.rnd.choice([1, True]) for path in sorted(paths)}
        if chance > 0.4 or not result:
            made = self.computed()
            tops = {path.split(".")[0] for path in made}
            result = {path: one for path, one in result.items() if path.split(".")[0] not in tops}
            result |= made
        self.fields = {
            kind: [path for path in have if path in result] for kind, have in self.fields.items()
        }
        if self.rnd.random() < 0.2:
            result["_id"] = 0
            self.order = None
        return result

    def group(self, sorted_rows):
        """Groups by a field or an expression."""
        identity = self.rnd.choice([None, "$" + self.known(), self.operator("any"), "pair"])
        if identity == "pair":
            identity = {"k": "$" + self.known(), "w": self.operator("num")}
        accumulators = ["$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp", "$addToSet"]
        accumulators += ["$count", *(["$first", "$last", "$push"] if sorted_rows else [])]
        result, fields = {"_id": identity}, {"any": ["_id"]}
        for name in self.rnd.sample(["u", "v", "w"], self.rnd.choice([1, 2, 3])):
            op = self.rnd.choice(accumulators)
            kind = "num" if op[:3] in ("$su", "$av", "$st") or self.rnd.random() < 0.4 else "any"
            result[name] = {op: {} if op == "$count" else self.make(kind, self.depth - 1)}
            if isinstance(result[name][op], list):
                result[name][op] = "$a"
            made = {"$push": "arr", "$addToSet": "set", "$count": "num"}.get(op, kind)
            fields.setdefault(made, []).append(name)
        self.fields, self.order, self.sorted = fields, {"_id": 1}, False
        return result

    def unwind(self):
        """One document for each element of an array."""
        kinds = [kind for kind in ("nums", "arr", "docs") if self.fields.get(kind)]
        path = self.rnd.choice(self.fields[self.rnd.choice(kinds)] if kinds else ["_id"])
        self.order = None if not self.order or len(self.order) > 1 else {"_id": 1, "i": 1}
        if self.order is None or self.rnd.random() < 0.3:
            self.order = None
            return "$" + path
        keep = {"preserveNullAndEmptyArrays": True} if self.rnd.random() < 0.5 else {}
        return {"path": "$" + path, "includeArrayIndex": "i", **keep}

    def bucket(self):
        """Groups by ranges of numbers."""
        bounds = self.rnd.choice([[-10, 0, 5, 100], [0, 2.5, Int64(2**40)], [-1e12, 0, 1e12]])
        result = {"groupBy": self.operator("num"), "boundaries": bounds}
        result |= {"default": "other"} if self.rnd.random() < 0.8 else {}
        if self.rnd.random() < 0.4:
            result["output"] = {"n": {"$sum": 1}, "v": {"$max": "$" + self.known()}}
        self.fields = {"num": ["count", "n"], "any": ["_id", "v"]}
        self.order, self.sorted = {"_id": 1}, True
        return result

    def facet(self):
        """Two pipelines side by side."""
        fields, order, is_sorted = self.fields, self.order, self.sorted
        result = {}
        for name in ("one", "two"):
            self.fields, self.order, self.sorted = dict(fields), order, is_sorted
            result[name] = self.stages(self.rnd.choice([1, 2]), nested=True)
        self.fields, self.order, self.sorted = {"arr": ["one", "two"]}, None, True
        return result

    def sort(self):
        """An order by one field, then by something unique."""
        path = self.rnd.choice([path for path in [self.known()] if path != "_id"] or ["s"])
        rest = self.order or {}
        self.sorted = self.sorted or bool(rest)
        return {path: self.rnd.choice([1, -1]), **rest}

    def stages(self, count, nested=False):
        """So many stages, and those that sort before them."""
        stages = []
        names = ["match", "project", "addFields", "set", "group", "group", "bucket", "sortByCount"]
        names += ["replaceRoot", "replaceWith", "project", "addFields"] + ["facet"] * (not nested)
        others = ["unset", "sort", "limit", "skip", "unwind", "unwind", "count"]
        for place in range(count):
            if self.rnd.random() < self.odd / 4:
                stages.append(self.rnd.choice(BROKEN))
            name = self.rnd.choice(names if place == 0 else names + others)
            if name in ("limit", "skip"):
                if not self.sort_first(stages):
                    continue
                stages.append({"$" + name: self.rnd.choice([0, 1, 2, 3, 5][name == "limit" :])})
            elif name == "group":
                ready = self.rnd.random() < 0.6 and self.sort_first(stages)
                stages.append({"$group": self.group(ready)})
            elif name in ("addFields", "set"):
                stages.append({"$" + name: self.computed()})
            elif name == "unset":
                paths = sorted({self.known() for _ in range(2)} - {"_id", "o"}) or ["b"]
                stages.append({"$unset": self.rnd.choice([paths, paths[0]])})
            elif name == "count":
                stages.append({"$count": "n"})
                self.fields, self.order, self.sorted = {"num": ["n"]}, None, True
            elif name == "sortByCount":
                stages.append({"$sortByCount": self.operator("any")})
                self.fields = {"num": ["count"], "any": ["_id"]}
                self.order, self.sorted = {"_id": 1}, False
            elif name in ("replaceRoot", "replaceWith"):
                root = {"$mergeObjects": [self.make("obj", 2), {"a": self.make("any", 2)}]}
                root = self.rnd.choice([root, root, {"$ifNull": ["$o", {"x": "$a"}]}, "$$ROOT"])
                stages.append({"$" + name: {"newRoot": root} if name == "replaceRoot" else root})
                self.order = None
            else:
                stages.append({"$" + name: getattr(self, name)()})
        return stages


def random_pipeline(rnd, odd=None):
    """A pipeline of 1 to 5 stages (and `$sort`s) with expressions nested to depth 3."""
    odd = rnd.choice([0, 0, 0, 0.02, 0.1]) if odd is None else odd
    maker = Maker(rnd, odd, rnd.choice([1, 1, 2, 2, 3]))
    if rnd.random() < 0.3:  # a few expressions, with nothing that could hide their results
        kind = rnd.choice(
            ["num", "clock", "clock", "str", "bool", "date", "date", "arr", "obj", "set"]
        )
        return [{"$project": {name: maker.operator(kind) for name in ("q", "x", "y", "z")}}]
    return maker.stages(rnd.choice([1, 1, 2, 2, 3, 4, 5]))
