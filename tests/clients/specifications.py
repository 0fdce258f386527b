"""Runs the drivers' own tests of MongoDB against Logmill, with the runner of pymongo.

    python3 specifications.py ADDRESS SOURCES [PATTERN]

SOURCES is the folder of pymongo's source distribution: its tests hold the data files of
mongodb/specifications and the runner of their unified format. Each test gets collections of its own,
since a stream is not dropped. The commands go through `fail_points.py`, which has the fail points
that such tests ask for.

A test *passes*, or is *not applicable*: its requirements name another topology or version, pymongo
has no such operation, the server refused one of its commands by name, or it asks for what the
documentation names as different. Every other end is a failure. Prints a line for each failure, then
the counts as one JSON document.
"""

import collections
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import unittest

try:
    import pymongo
except ImportError:
    print("skipped: pymongo is not installed")
    sys.exit(0)

from fail_points import FailPoints

FILES = [
    "crud/unified/*",
    "retryable_writes/unified/*",
    "retryable_reads/unified/[acde]*",
    "retryable_reads/unified/find*",
    "command_monitoring/*",
]
# The time for all tests.
WITHIN_S = 900
# Codes of refusals: CommandNotFound, CannotCreateIndex, CommandNotSupported.
REFUSED = {59, 67, 115}
# Tests of what docs/clients/mongodb.md names as different, by parts of their descriptions.
DIFFERENCES = {
    "a dot in a name is a path": ["dotted key"],
    "an insert does not look for an equal _id": [
        "preexisting duplicate key",
        "successful insertMany with write errors",
        "successful insertOne with write errors",
    ],
}


def load_runner(sources, address):
    """Imports pymongo's package of tests, whose name the standard library has, too."""
    os.environ["DB_IP"], os.environ["DB_PORT"] = address[0], str(address[1])
    folder = sources / "test"
    spec = importlib.util.spec_from_file_location(
        "test", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["test"] = package
    spec.loader.exec_module(package)
    package.client_context.init()
    return importlib.import_module("test.unified_format")


def own_collections(specification, number):
    """Gives the collections of a file names of their own, wherever it names them."""
    names = set()

    def find(value):
        if isinstance(value, dict):
            name = value.get("collectionName")
            if isinstance(name, str):
                names.add(name)
            for item in value.values():
                find(item)
        elif isinstance(value, list):
            for item in value:
                find(item)

    def renamed(text):
        database, _, collection = text.rpartition(".")
        if collection in names and re.fullmatch(r"[\w-]*", database):
            return "%s_%d_%d" % (text, os.getpid(), number)
        return text

    def rename(value):
        if isinstance(value, dict):
            return {key: rename(item) for key, item in value.items()}
        if isinstance(value, list):
            return [rename(item) for item in value]
        return renamed(value) if isinstance(value, str) else value

    # `$merge` and `$out` write into collections that only the outcome names.
    find(specification)
    return rename(specification)


def allow_fail_point(specification):
    """Only members of a replica set have `onPrimaryTransactionalWrite`, and here the proxy."""
    if "onPrimaryTransactionalWrite" in json.dumps(specification):
        for requirement in specification.get("runOnRequirements", []):
            requirement.get("topologies", []).append("sharded")


class Table(unittest.TestResult):
    def __init__(self, points):
        super().__init__()
        self.points = points
        self.passed = collections.Counter()
        self.reasons = collections.Counter()
        self.failed = []

    def startTest(self, test):
        super().startTest(test)
        self.points.begin()
        self.is_told = False

    def addSuccess(self, test):
        if not self.is_told:
            self.passed[test.folder] += 1

    def addSkip(self, test, reason):
        self.is_told = True
        # The runner names its class, which is made for this file.
        reason = re.sub("^Test\\w+ ", "", reason)
        self.reasons["%s: %s" % (test.folder, reason)] += 1

    def addError(self, test, error):
        self.tell(test, error)

    def addFailure(self, test, error):
        self.tell(test, error)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.tell(test, error)

    def tell(self, test, error):
        if self.is_told:
            return
        self.is_told = True
        if "object is not callable" in str(error[1]):
            self.reasons["%s: pymongo has no such operation" % test.folder] += 1
            return
        refused = [(name, text) for name, code, text in self.points.refusals if code in REFUSED]
        if refused:
            name, text = refused[0]
            text = re.sub("\\w+_%d_\\d+" % os.getpid(), "NAME", text)
            self.reasons["%s: %s: %s" % (test.folder, name, text)] += 1
            return
        description = test.TEST_SPEC["tests"][0]["description"]
        for reason, parts in DIFFERENCES.items():
            if any(part in description for part in parts):
                self.reasons["%s: %s" % (test.folder, reason)] += 1
                return
        lines = str(error[1]).strip().splitlines() or [error[0].__name__]
        told = "; ".join("%s %s %s" % refusal for refusal in self.points.refusals)
        name = "%s %s" % (test.file, test._testMethodName)
        self.failed.append("%s: %s %s [%s]" % (name, error[0].__name__, lines[0][:300], told[:300]))


def classes(runner, sources, pattern):
    """Yields a class of tests for each test of each file."""
    number = 0
    for files in FILES:
        folder = files.rpartition("/")[0]
        for file in sorted((sources / "test").glob(files + ".json")):
            whole = json.loads(file.read_text())
            for test in whole["tests"]:
                number += 1
                if not re.search(pattern, "%s/%s %s" % (folder, file.name, test["description"])):
                    continue
                specification = own_collections(dict(whole, tests=[test]), number)
                allow_fail_point(specification)
                with tempfile.TemporaryDirectory() as scratch:
                    path = pathlib.Path(scratch, file.name)
                    path.write_text(json.dumps(specification))
                    made = runner.generate_test_classes(
                        scratch, folder=folder.split("/")[0], file=file.name
                    )
                for of_test in made.values():
                    # The runner collects garbage behind each class, and here a test has its own.
                    of_test.tearDownClass = classmethod(lambda of: of.knobs.disable())
                    yield of_test


def main():
    address, sources = sys.argv[1], pathlib.Path(sys.argv[2])
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    # A test that never ends is one that fails.
    end = threading.Timer(WITHIN_S, os._exit, [1])
    end.daemon = True
    end.start()
    points = FailPoints(address)
    runner = load_runner(sources, points.address)
    table = Table(points)
    for made in classes(runner, sources, pattern):
        unittest.defaultTestLoader.loadTestsFromTestCase(made).run(table)
    for failure in table.failed:
        print(failure)
    counts = {
        "passed": table.passed,
        "not applicable": dict(sorted(table.reasons.items())),
        "failed": len(table.failed),
    }
    print(json.dumps(counts))


main()
