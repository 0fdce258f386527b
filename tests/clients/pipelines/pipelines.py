"""An oracle for aggregation pipelines: random documents, random pipelines and their results.

The evaluator follows the semantics MongoDB documents, written down here independently of the log
store whose MongoDB listener it checks.  Three things can come out of a pipeline:

* a list of documents,
* `Refused`: MongoDB answers this pipeline with an error,
* `Undecided`: the outcome is left open, so that no comparison is possible.

What is left open, and therefore never takes part in a comparison:

* which documents `$limit`, `$skip`, `$first`, `$last` choose from an input without a total order,
  and the order of what `$push` gathers from it (such arrays are a `Bag`);
* the order of elements of sets, and anything that looks at it;
* which of several equal values of different types (1 and 1.0) stands for a set or a group;
* the order between documents of several fields, because the store keeps no order of fields;
* the case of letters beyond ASCII;
* operators that get both a null and a value of a wrong type (null or an error, by their order);
* errors in documents which a later `$match`, `$skip` or `$limit` passes over, or in an expression
  for the elements of an empty array;
* constant expressions that fail (they are refused at once or when they are reached);
* fractions of milliseconds in date arithmetic, local times which a clock change repeats or skips,
  named time zones outside of 1970 to 2037, dates outside of the years 1 to 9999;
* how computed decimals, and doubles of more than 12 digits, are written as strings;
* rounding of doubles whose binary and decimal forms lie on different sides of a tie;
* remainders and deviations of doubles that depend on the last digits of their arguments;
* strings as dates, unless they are in ISO format; paths through arrays in `$sort` which meet
  scalars; values which are missing below a dotted path in `$addFields`.
"""

import re
from datetime import datetime, timezone

from bson import Int64

from grammar import random_document, random_pipeline
from operators import ACCUMULATORS, DATE_PARTS, OPERATORS, bind, check_order
from operators import check_regex
from values import EPOCH, MISSING, RANKS, Bag, Refused, Undecided, distinct, is_null, is_number
from values import is_index, is_whole, key, like, loose, plain, same, sort, truth, type_name, walk

__all__ = ["Refused", "Undecided", "evaluate", "random_document", "random_pipeline", "same"]

# ---- expressions ----

VARIABLES = frozenset(["ROOT", "CURRENT", "NOW", "REMOVE"])


def scope_of(document, now):
    """The variables at the start of an expression."""
    return {"ROOT": document, "CURRENT": document, "NOW": now, "REMOVE": MISSING}


def constant(spec):
    """Whether an expression looks at nothing."""
    if isinstance(spec, str):
        return not spec.startswith("$")
    if isinstance(spec, list):
        return all(map(constant, spec))
    if isinstance(spec, dict):
        return "$literal" in spec or "$getField" not in spec and all(map(constant, spec.values()))
    return True


def expression(spec, names=VARIABLES):
    """The expression as a function of its variables."""
    if isinstance(spec, str) and spec.startswith("$"):
        name, *path = (spec[2:] if spec[1:2] == "$" else "CURRENT." + spec[1:]).split(".")
        if name not in names or "" in path:
            raise Refused("no such variable or path: " + spec)
        return lambda scope: walk(scope[name], path)
    if isinstance(spec, list):
        parts = [expression(part, names) for part in spec]
        return lambda scope: [null_for_missing(part(scope)) for part in parts]
    if not isinstance(spec, dict):
        return lambda scope: spec
    if not any(name.startswith("$") for name in spec):
        return object_expression(spec, names)
    if len(spec) != 1:
        raise Refused("several operators")
    ((name, argument),) = spec.items()
    if name in FORMS:
        run = FORMS[name](argument, names)
    else:
        run = call(name, argument, names)
    if constant(spec):
        try:
            run(scope_of({}, EPOCH))
        except Refused:
            raise Undecided("a constant expression that fails") from None
    return run


def null_for_missing(value):
    """The value, or null if it is missing."""
    return None if value is MISSING else value


def object_expression(spec, names):
    """An expression that makes a document."""
    if any("." in name for name in spec):
        raise Refused("a path as a name")
    parts = {name: expression(part, names) for name, part in spec.items()}

    def run(scope):
        values = {name: part(scope) for name, part in parts.items()}
        return {name: value for name, value in values.items() if value is not MISSING}

    return run


def call(name, argument, names):
    """An operator that evaluates all of its arguments first."""
    if name not in OPERATORS:
        raise Refused("no such operator: " + name)
    function, kinds = OPERATORS[name]
    if isinstance(kinds, dict):
        named = isinstance(argument, dict) and not any(k.startswith("$") for k in argument)
        if name in DATE_PARTS and not named:
            single = isinstance(argument, list) and len(argument) == 1
            argument = {"date": argument[0] if single else argument}
        if name == "$getField" and not (named and "field" in argument):
            argument = {"field": argument, "input": "$$CURRENT"}
        argument = arguments(argument, kinds)
        if name == "$sortArray":
            check_order(argument["sortBy"])
        if name == "$regexMatch" and constant(argument["regex"]):
            check_regex(argument["regex"])
        parts = [expression(part, names) for part in argument.values()]
        kinds = [kinds[k] for k in argument]
    else:
        operands = argument if isinstance(argument, list) else [argument]
        parts = [expression(part, names) for part in operands]
        if kinds[-1].endswith("*"):
            kinds = kinds[:-1] + kinds[-1:] * (len(parts) - len(kinds) + 1)
        if not sum(kind[-1] not in "?*" for kind in kinds) <= len(parts) <= len(kinds):
            raise Refused("a wrong number of arguments")

    def run(scope):
        values = bind(kinds, [part(scope) for part in parts])
        if values is None:
            return None
        if isinstance(argument, dict) and isinstance(OPERATORS[name][1], dict):
            return function(**dict(zip(argument, values)))
        return function(*values)

    return run


def arguments(given, kinds):
    """The named arguments, checked against the names there are (`?` marks the optional ones)."""
    needed = {name for name, kind in kinds.items() if not kind.endswith("?")}
    if not isinstance(given, dict) or not needed <= given.keys() <= kinds.keys():
        raise Refused("missing or unknown arguments")
    return given


def _logical(check):
    def form(argument, names):
        operands = argument if isinstance(argument, list) else [argument]
        parts = [expression(part, names) for part in operands]
        return lambda scope: check(truth(part(scope)) for part in parts)

    return form


def _if_null(argument, names):
    if not isinstance(argument, list) or len(argument) < 2:
        raise Refused("too few arguments")
    parts = [expression(part, names) for part in argument]

    def run(scope):
        for part in parts:
            value = part(scope)
            if not is_null(value):
                break
        return value

    return run


def _cond(argument, names):
    if isinstance(argument, list) and len(argument) == 3:
        argument = dict(zip(("if", "then", "else"), argument))
    argument = arguments(argument, {"if": "any", "then": "any", "else": "any"})
    parts = {name: expression(part, names) for name, part in argument.items()}
    return lambda scope: parts["then" if truth(parts["if"](scope)) else "else"](scope)


def _switch(argument, names):
    argument = arguments(argument, {"branches": "any", "default": "any?"})
    if not isinstance(argument["branches"], list) or not argument["branches"]:
        raise Refused("no branches")
    branches = []
    for branch in argument["branches"]:
        branch = arguments(branch, {"case": "any", "then": "any"})
        branches.append([expression(branch[name], names) for name in ("case", "then")])
    default = expression(argument.get("default"), names)

    def run(scope):
        for case, then in branches:
            if truth(case(scope)):
                return then(scope)
        if "default" not in argument:
            raise Refused("no branch applies")
        return default(scope)

    return run


def _let(argument, names):
    argument = arguments(argument, {"vars": "obj", "in": "any"})
    parts = {variable(name): expression(part, names) for name, part in argument["vars"].items()}
    inner = expression(argument["in"], names | parts.keys())
    return lambda scope: inner(scope | {name: part(scope) for name, part in parts.items()})


def variable(name):
    """The name of a variable, which begins with a small letter."""
    if not isinstance(name, str) or not re.fullmatch("[a-z][A-Za-z0-9_]*", name):
        raise Refused("no name for a variable")
    return name


def _items(value):
    if not isinstance(value, list):
        raise Refused("no array")
    return value


def _map(argument, names):
    argument = arguments(argument, {"input": "arr", "as": "str?", "in": "any"})
    source, name = expression(argument["input"], names), variable(argument.get("as", "this"))
    inner = expression(argument["in"], names | {name})

    def run(scope):
        items = source(scope)
        if is_null(items):
            return None
        results = [inner(scope | {name: item}) for item in _items(items)]
        return like(items, map(null_for_missing, results))

    return run


def _filter(argument, names):
    argument = arguments(argument, {"input": "arr", "as": "str?", "cond": "any", "limit": "int?"})
    source, name = expression(argument["input"], names), variable(argument.get("as", "this"))
    inner, limit = expression(argument["cond"], names | {name}), argument.get("limit")
    limit = expression(limit, names)

    def run(scope):
        items, most = source(scope), limit(scope)
        wrong = not is_null(most) and (not is_index(most) or plain(most) < 1)
        if is_null(items):
            if wrong:
                raise Undecided("a null beside a wrong type")
            return None
        if wrong:
            raise Refused("no limit")
        kept = [item for item in _items(items) if truth(inner(scope | {name: item}))]
        if not is_null(most) and len(kept) > plain(most) and loose(items):
            raise Undecided("the first of a set")
        return like(items, kept if is_null(most) else kept[: int(plain(most))])

    return run


def _reduce(argument, names):
    argument = arguments(argument, {"input": "arr", "initialValue": "any", "in": "any"})
    source, initial = (expression(argument[part], names) for part in ("input", "initialValue"))
    inner = expression(argument["in"], names | {"this", "value"})

    def run(scope):
        items = source(scope)
        if is_null(items):
            return None
        if loose(_items(items)):
            raise Undecided("the order of a set")
        value = initial(scope)
        for item in items:
            value = inner(scope | {"this": item, "value": value})
        return value

    return run


FORMS = {
    "$and": _logical(all), "$or": _logical(any), "$ifNull": _if_null, "$cond": _cond,
    "$switch": _switch,
    "$let": _let, "$map": _map, "$filter": _filter, "$reduce": _reduce,
    "$literal": lambda argument, names: lambda scope: argument,
}  # fmt: skip

# ---- conditions of $match ----


def reached(value, path):
    """The values at a path, through arrays of documents."""
    if not path:
        yield value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from reached(item, path)
    else:
        inner = value.get(path[0], MISSING) if isinstance(value, dict) else MISSING
        yield from reached(inner, path[1:])


def equals(value, operand):
    """Whether a value equals the operand of a condition, for which null includes missing."""
    if operand is None:
        return is_null(value)
    return value is not MISSING and key(value) == key(operand)


def beside(value, operand, signs):
    """Whether a value of the kind of the operand compares with it like one of the signs."""
    left, right = key(null_for_missing(value)), key(operand)
    return left[0] == right[0] and (left > right) - (left < right) in signs


def of_type(value, name):
    """Whether `$type` counts the value in."""
    if name not in ["number", "int", "long", "double", "decimal", *RANKS]:
        raise Refused("no such type")
    return type_name(value) == name or name == "number" and is_number(value)


def element_matches(item, spec):
    """Whether `$elemMatch` finds its conditions, or its query, met by an element."""
    if all(name.startswith("$") for name in spec):
        return all(holds([item], *one, inside=False) for one in spec.items())
    return isinstance(item, dict) and condition(spec)(item, EPOCH)


ANY_VALUE = {  # conditions which hold if they hold for the value or an element of it
    "$eq": equals,
    "$gt": lambda value, operand: beside(value, operand, (1,)),
    "$gte": lambda value, operand: beside(value, operand, (0, 1)),
    "$lt": lambda value, operand: beside(value, operand, (-1,)),
    "$lte": lambda value, operand: beside(value, operand, (-1, 0)),
    "$in": lambda value, operand: any(equals(value, item) for item in operand),
    "$type": of_type,
}
WHOLE_VALUE = {  # conditions on the value as it is
    "$exists": lambda value, operand: value is not MISSING,
    "$size": lambda value, operand: isinstance(value, list) and len(value) == operand,
    "$elemMatch": lambda value, operand: isinstance(value, list)
    and any(element_matches(item, operand) for item in value),
}
OPPOSITES = {"$ne": "$eq", "$nin": "$in"}


def holds(values, name, operand, inside=True):
    """Whether a condition holds for the values at a path, or for what is inside of arrays there."""
    if name in OPPOSITES:
        return not holds(values, OPPOSITES[name], operand, inside)
    if name == "$not":
        return not all(holds(values, *one, inside) for one in operand.items())
    if name in WHOLE_VALUE:
        found = any(WHOLE_VALUE[name](value, operand) for value in values)
        return found == truth(operand) if name == "$exists" else found
    if name not in ANY_VALUE or name in ("$in", "$nin") and not isinstance(operand, list):
        raise Refused("no such condition: " + name)
    arrays = [value for value in values if isinstance(value, list)] if inside else []
    items = [item for array in arrays for item in array]
    return any(ANY_VALUE[name](value, operand) for value in [*values, *items])


def condition(spec):
    """A query as a function of a document and the time."""
    if not isinstance(spec, dict):
        raise Refused("no query")
    tests = []
    for name, operand in spec.items():
        if name == "$expr":
            run = expression(operand)
            tests.append(lambda doc, now, run=run: truth(run(scope_of(doc, now))))
        elif name in ("$and", "$or", "$nor"):
            if not isinstance(operand, list) or not operand:
                raise Refused("no queries")
            tests.append(_combined(name, list(map(condition, operand))))
        elif name.startswith("$"):
            raise Refused("no such operator: " + name)
        else:
            tests.append(_at_path(name.split("."), operand))
    return lambda doc, now: all(test(doc, now) for test in tests)


def _combined(name, parts):
    check = all if name == "$and" else any
    return lambda doc, now: check(part(doc, now) for part in parts) != (name == "$nor")


def _at_path(path, operand):
    named = isinstance(operand, dict) and any(name.startswith("$") for name in operand)
    checks = operand if named else {"$eq": operand}
    for one in checks.items():
        holds([], *one)

    def test(doc, now):
        values = list(reached(doc, path))
        return all(holds(values, *one) for one in checks.items())

    return test


# ---- stages ----


def leaves(spec, prefix=()):
    """The paths of a projection with what stands there."""
    if not isinstance(spec, dict) or not spec:
        raise Undecided("an empty document below a path") if prefix else Refused("no fields")
    for name, value in spec.items():
        path = (*prefix, *name.split("."))
        if "" in path or name.startswith("$"):
            raise Refused("a wrong path")
        if isinstance(value, dict) and not any(inner.startswith("$") for inner in value):
            yield from leaves(value, path)
        else:
            yield path, value


def kept(value, paths):
    """The value reduced to the paths."""
    if isinstance(value, list):
        return like(value, [kept(v, paths) for v in value if isinstance(v, (dict, list))])
    result = {}
    for name, inner in value.items():
        rest = [path[1:] for path in paths if path[0] == name]
        if () in rest:
            result[name] = inner
        elif rest and isinstance(inner, (dict, list)):
            result[name] = kept(inner, rest)
    return result


def without(value, paths):
    """The value without what is at the paths."""
    if isinstance(value, list):
        return like(value, [without(item, paths) for item in value])
    if not isinstance(value, dict):
        return value
    result = {}
    for name, inner in value.items():
        rest = [path[1:] for path in paths if path[0] == name]
        if () not in rest:
            result[name] = without(inner, rest) if rest else inner
    return result


def assigned(value, path, new):
    """The value with a new one at the path."""
    if isinstance(value, list):
        return like(value, [assigned(item, path, new) for item in value])
    result = dict(value) if isinstance(value, dict) else {}
    if len(path) > 1:
        if new is MISSING:
            raise Undecided("a missing value below a path")
        result[path[0]] = assigned(result.get(path[0]), path[1:], new)
    elif new is MISSING:
        result.pop(path[0], None)
    else:
        result[path[0]] = new
    return result


def each(function):
    """A stage that makes one document out of each."""
    return lambda rows, now: like(rows, [function(document, now) for document in rows])


def _assignments(parts):
    parts = {path: expression(spec) for path, spec in parts.items()}
    if any(a != b and a == b[: len(a)] for a in parts for b in parts):
        raise Refused("one path inside of another")

    def assign(base, document, now):
        scope = scope_of(document, now)
        for path, part in parts.items():
            try:
                base = assigned(base, path, part(scope))
            except Refused:
                if len(path) == 1:
                    raise
                raise Undecided("an error below a path, which may not be reached") from None
        return base

    return assign


def _add_fields(spec):
    assign = _assignments(dict(leaves(spec)))
    return each(lambda document, now: assign(document, document, now))


def _project(spec):
    parts = dict(leaves(spec))
    flags = {path: truth(v) for path, v in parts.items() if is_number(v) or isinstance(v, bool)}
    others = {path: value for path, value in parts.items() if path not in flags}
    shown = [path for path, flag in flags.items() if flag]
    hidden = [path for path, flag in flags.items() if not flag]
    if any(a != b and a == b[: len(a)] for a in parts for b in parts):
        raise Refused("one path inside of another")
    if not shown and not others:
        return each(lambda document, now: without(document, hidden))
    if any(path != ("_id",) for path in hidden):
        raise Refused("inclusion and exclusion")
    assign = _assignments(others)
    shown += [(*path, "") for path in others if len(path) > 1]
    shown += [("_id",)] if ("_id",) not in parts else []
    return each(lambda document, now: assign(kept(document, shown), document, now))


def _unset(spec):
    return _project({path: 0 for path in (spec if isinstance(spec, list) else [spec])})


def _replace_with(spec):
    part = expression(spec)

    def replace(document, now):
        result = part(scope_of(document, now))
        if not isinstance(result, dict):
            raise Refused("no document")
        return result

    return each(replace)


def _match(spec):
    test = condition(spec)
    return lambda rows, now: like(rows, [document for document in rows if test(document, now)])


def _accumulator(spec):
    if not isinstance(spec, dict) or len(spec) != 1:
        raise Refused("no accumulator")
    ((name, argument),) = spec.items()
    if name not in ACCUMULATORS or name == "$count" and argument != {}:
        raise Refused("no such accumulator")
    part = expression(argument)
    function = ACCUMULATORS[name]
    return lambda rows, now: function(like(rows, [part(scope_of(row, now)) for row in rows]))


def _accumulators(spec):
    if not isinstance(spec, dict) or any("." in name or name[:1] == "$" for name in spec):
        raise Refused("wrong names")
    parts = {name: _accumulator(one) for name, one in spec.items()}
    return lambda rows, now: {name: part(rows, now) for name, part in parts.items()}


def _group(spec):
    if not isinstance(spec, dict) or "_id" not in spec:
        raise Refused("a group without an _id")
    identity = expression(spec["_id"])
    totals = _accumulators({name: one for name, one in spec.items() if name != "_id"})

    def run(rows, now):
        groups = {}
        for document in rows:
            value = null_for_missing(identity(scope_of(document, now)))
            groups.setdefault(key(value), []).append((value, document))
        result = Bag()
        for members in groups.values():
            distinct(value for value, _ in members)
            inside = like(rows, [document for _, document in members])
            result.append({"_id": members[0][0], **totals(inside, now)})
        return result

    return run


def computed(spec):
    """Refuses what is neither a path nor an operator."""
    text = next(iter(spec), "") if isinstance(spec, dict) else spec
    if not isinstance(text, str) or not text.startswith("$"):
        raise Refused("neither a path nor an operator")


def _bucket(spec):
    kinds = {"groupBy": "any", "boundaries": "arr", "default": "any?", "output": "obj?"}
    spec = arguments(spec, kinds)
    bounds = [key(bound) for bound in spec["boundaries"]]
    other = key(spec.get("default"))
    if len(bounds) < 2 or any(a >= b or a[0] != b[0] for a, b in zip(bounds, bounds[1:])):
        raise Refused("wrong boundaries")
    if "default" in spec and bounds[0] <= other < bounds[-1]:
        raise Refused("the default is inside of the boundaries")
    part = expression(spec["groupBy"])
    computed(spec["groupBy"])
    totals = _accumulators(spec.get("output", {"count": {"$sum": 1}}))

    def run(rows, now):
        groups = {}
        for document in rows:
            value = key(part(scope_of(document, now)))
            inside = bounds[0] <= value < bounds[-1]
            if not inside and "default" not in spec:
                raise Refused("a value outside of the boundaries")
            place = max(i for i, bound in enumerate(bounds) if bound <= value) if inside else None
            groups.setdefault(place, []).append(document)
        result = []
        for place, members in groups.items():
            name = spec["default"] if place is None else spec["boundaries"][place]
            result.append({"_id": name, **totals(like(rows, members), now)})
        return sort(result, {"_id": 1})

    return run


def _sort_by_count(spec):
    computed(spec)
    group = _group({"_id": spec, "count": {"$sum": 1}})
    return lambda rows, now: sort(group(rows, now), {"count": -1})


def _sort(spec):
    if not isinstance(spec, dict) or not spec or any(way not in (1, -1) for way in spec.values()):
        raise Refused("no order")
    return lambda rows, now: sort(rows, spec)


def _cut(lowest, choose):
    def stage(count):
        if not is_whole(count) or count < lowest:
            raise Refused("no count")

        def run(rows, now):
            result = choose(rows, int(count))
            if loose(rows) and 0 < len(result) < len(rows):
                raise Undecided("some of documents without an order")
            return like(rows, result)

        return run

    return stage


def _unwind(spec):
    kinds = {"path": "str", "includeArrayIndex": "str?", "preserveNullAndEmptyArrays": "bool?"}
    spec = arguments(spec if isinstance(spec, dict) else {"path": spec}, kinds)
    index, keep = spec.get("includeArrayIndex"), spec.get("preserveNullAndEmptyArrays", False)
    if not isinstance(spec["path"], str) or not re.fullmatch(r"\$[^$]+", spec["path"]):
        raise Refused("no path")
    if index is not None and (not index or index.startswith("$")):
        raise Refused("no name")
    path = tuple(spec["path"][1:].split("."))

    def unwound(document):
        value = document
        for name in path:
            value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
        rows = [(None, value)]
        if isinstance(value, list):
            rows = [(Int64(place), item) for place, item in enumerate(value)]
        if not rows or is_null(value):
            rows = [(None, value)] if keep else []
        for place, item in rows:
            row = without(document, [path]) if value == [] else document
            row = row if value is MISSING or value == [] else assigned(row, path, item)
            yield row if index is None else assigned(row, tuple(index.split(".")), place)

    def run(rows, now):
        shuffled = any(loose(walk(document, path)) for document in rows)
        result = [row for document in rows for row in unwound(document)]
        return Bag(result) if shuffled or loose(rows) else result

    return run


def _count(name):
    if not isinstance(name, str) or not name or name.startswith("$") or "." in name:
        raise Refused("no name")
    return lambda rows, now: [{name: len(rows)}] if rows else []


def _facet(spec):
    if not isinstance(spec, dict) or not spec:
        raise Refused("no facets")
    if any("$facet" in one for stages in spec.values() for one in stages):
        raise Refused("a facet in a facet")
    parts = {name: compiled(stages) for name, stages in spec.items()}
    return lambda rows, now: [{name: part(rows, now) for name, part in parts.items()}]


def _replace_root(spec):
    return _replace_with(arguments(spec, {"newRoot": "any"})["newRoot"])


STAGES = {
    "$match": _match, "$project": _project, "$addFields": _add_fields, "$set": _add_fields,
    "$unset": _unset, "$group": _group, "$sort": _sort, "$unwind": _unwind, "$count": _count,
    "$limit": _cut(1, lambda rows, count: rows[:count]), "$facet": _facet, "$bucket": _bucket,
    "$skip": _cut(0, lambda rows, count: rows[count:]), "$sortByCount": _sort_by_count,
    "$replaceRoot": _replace_root, "$replaceWith": _replace_with,
}  # fmt: skip


def compiled(pipeline):
    """The pipeline as a function of documents and the time."""
    stages = []
    for stage in pipeline:
        if not isinstance(stage, dict) or len(stage) != 1 or not stage.keys() <= STAGES.keys():
            raise Refused("no stage")
        ((name, spec),) = stage.items()
        stages.append(STAGES[name](spec))

    def run(rows, now):
        for place, stage in enumerate(stages):
            try:
                rows = stage(rows, now)
            except Refused:
                if any(one.keys() & {"$limit", "$skip", "$match"} for one in pipeline[place + 1 :]):
                    raise Undecided("an error that a later stage may avoid") from None
                raise
        return rows

    return run


def evaluate(documents, pipeline, now=None):
    """The documents that come out of the pipeline: a `Bag` unless they are totally ordered."""
    return compiled(pipeline)(Bag(documents), now or datetime.now(timezone.utc))
