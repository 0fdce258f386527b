"""Reads dashboards with Grafana's own classes and writes them again: no member may be lost.

Usage: grafana.py FOLDER, the folder of `logmill grafana --out`. The classes are those of
`grafana-foundation-sdk`, made from the schema of the Grafana release in its version.
"""

import json
import pathlib
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(path, written, read):
    """Yields the members of `written` that `read` has not, or has otherwise."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            # The model leaves out what is null.
            if key not in read and value is not None:
                yield f"{path}.{key}"
            elif key in read:
                yield from lost(f"{path}.{key}", value, read[key])
    elif isinstance(written, list) and isinstance(read, list):
        if len(written) != len(read):
            yield path
        for n, (one, other) in enumerate(zip(written, read)):
            yield from lost(f"{path}[{n}]", one, other)
    elif written != read:
        yield f"{path}: {written!r} became {read!r}"


plugins.register_default_plugins()
files = sorted(pathlib.Path(sys.argv[1]).glob("dashboards/*.json"))
found = []
for file in files:
    written = json.loads(file.read_text())
    model = Dashboard.from_json(written)
    read = json.loads(json.dumps(model, cls=JSONEncoder))
    found += [f"{file.name}{one}" for one in lost("", written, read)]
print(*found, sep="\n")
print(f"{len(files)} dashboards")
sys.exit(1 if found else 0)
