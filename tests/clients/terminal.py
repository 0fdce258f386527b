"""Runs a program on a terminal of its own.

Copies standard input to the terminal and its output to standard output, and ends with the exit
code of the program. The end of standard input hangs the terminal up.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

ROWS, COLUMNS = 24, 160

process, terminal = pty.fork()
if process == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])

while True:
    ready, _, _ = select.select([0, terminal], [], [])
    if terminal in ready:
        try:
            shown = os.read(terminal, 65536)
        except OSError:  # The program has closed the terminal.
            break
        if not shown:
            break
        os.write(1, shown)
    if 0 in ready:
        typed = os.read(0, 65536)
        if not typed:
            break
        os.write(terminal, typed)

os.close(terminal)
_, status = os.waitpid(process, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
