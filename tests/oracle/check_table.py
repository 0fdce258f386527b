#!/usr/bin/env python3
"""Hold the oracle's counts of real logs against the table that came with them.

    check_table.py DATA_DIR

DATA_DIR holds a README.md whose table says, for each file, its lines, how many
of them match Combined and Common as whole lines, and how many match neither.
For each file this prints: lines, the accepted / quarantined / empty of `auto`
and of `auto --strict`, and the rule behind every difference between `auto` and
the table. It ends with 1 when a count differs that no rule explains: the
strict counts must equal the table exactly.
"""

import os
import re
import sys

from recompute import recompute

ROW = re.compile(r"^\| `(access/[^`]+)` \|")


def number(cell):
    return int(cell.replace(",", ""))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_table.py DATA_DIR")
    folder = sys.argv[1]
    failed = 0
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as table:
        # A cell may itself hold a `|`, so cells are counted from the ends.
        rows = [line.strip().strip("|").split(" | ") for line in table if ROW.match(line)]
    if not rows:
        sys.exit("the README.md there has no table of access logs")
    print("file | lines | auto a/q/e | strict a/q/e | forms | why auto differs from the table")
    for cells in rows:
        name = cells[0].strip().strip("`")
        lines = number(cells[3])
        combined, common = (number(part) for part in cells[8].split("/"))
        unmatched = number(cells[9])
        path = os.path.join(folder, name)
        loose, strict = recompute([path]), recompute([path], strict=True)
        forms = strict["forms"]
        problems = []
        if loose["lines"] != lines or strict["lines"] != lines:
            problems.append(f"lines: {loose['lines']} here, {lines} in the table")
        for form, expected in (("combined", combined), ("common", common)):
            if forms.get(form, 0) != expected:
                problems.append(f"{form}: {forms.get(form, 0)} here, {expected} in the table")
        if strict["quarantined"] + strict["empty"] != unmatched:
            problems.append(f"not matched: {strict['quarantined'] + strict['empty']} here, "
                            f"{unmatched} in the table")
        why = []
        for kind in ("combined+extra", "common+extra"):
            if kind in loose["forms"]:
                why.append(f"prefix rule: {loose['forms'][kind]} lines are {kind}")
        if loose["empty"]:
            why.append(f"{loose['empty']} blank lines are empty, not quarantined")
        counts = [f"{r['accepted']}/{r['quarantined']}/{r['empty']}" for r in (loose, strict)]
        print(" | ".join([name, str(lines), *counts, str(loose["forms"]),
                          "; ".join(why + problems) or "equal"]))
        failed += bool(problems)
    print(f"{len(rows)} files, {failed} with differences that no rule explains")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
