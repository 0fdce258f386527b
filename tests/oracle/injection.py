#!/usr/bin/env python3
"""Write the corpus of hostile texts as a Combined log, through every quoted field.

    injection.py [--raw]

Reads fixtures/injection.txt; each text comes once as user agent, referrer and
path, and once as user name where it can be one. As it stands by default;
`--raw` decodes \\xNN and \\u{H} to the bytes they mean. All lines are accepted
by `--format combined`.
"""

import pathlib
import re
import sys

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "injection.txt"
ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|u\{([0-9a-f]+)\}|(.))")


def decode(text):
    """The raw bytes of a line of the corpus; `\\"` and `\\\\` stay."""
    def one(match):
        if match[1]:
            return bytes([int(match[1], 16)])
        return chr(int(match[2], 16)).encode() if match[2] else match[0]
    return ESCAPE.sub(one, text)


def log(raw):
    """The lines of the log."""
    texts = CORPUS.read_bytes().splitlines()
    for number, text in enumerate(decode(text) if raw else text for text in texts):
        fields = [(b"-", b"/", b"-", text), (b"-", b"/", text, b"-"), (b"-", b"/" + text, b"-", b"-")]
        if b" " not in text and b'"' not in text:
            fields.append((text, b"/", b"-", b"-"))
        for user, path, referrer, agent in fields:
            stamp = b"01/Apr/2024:%02d:%02d:00 +0000" % divmod(number, 60)
            yield (b'203.0.113.66 - %s [%s] "GET %s HTTP/1.1" 200 66 "%s" "%s"\n'
                   % (user, stamp, path, referrer, agent))


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--raw"]):
        sys.exit("usage: injection.py [--raw]")
    sys.stdout.buffer.writelines(log(sys.argv[1:] == ["--raw"]))
