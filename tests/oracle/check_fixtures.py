#!/usr/bin/env python3
"""Hold the oracle against what the committed fixtures are by construction.

Ends with 1 when a fixture is not what its program writes, or when the oracle
counts other lines in the sample than the program that made it.
"""

import json
import pathlib
import subprocess
import sys

from injection import log
from recompute import parse_line, recompute

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"


def main():
    failed = 0
    for program in ("make_sample.py", "make_documents.py"):
        failed += subprocess.run([sys.executable, FIXTURES / program, "--check"]).returncode != 0
    wanted = json.loads((FIXTURES / "sample.counts.json").read_text())
    found = recompute([str(FIXTURES / "sample.log")])
    for name in ("lines", "accepted", "quarantined", "empty", "forms"):
        if found[name] != wanted[name]:
            print(f"sample.log, {name}: {wanted[name]} by construction, {found[name]} counted")
            failed += 1
    for raw in (False, True):
        for line in log(raw):
            if b"\n" in line[:-1] or isinstance(parse_line(line[:-1], "combined", True), str):
                print(f"a line of the injection corpus is no combined line: {line!r}")
                failed += 1
    print("the fixtures are as they should be" if not failed else f"{failed} faults")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
