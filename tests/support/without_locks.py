"""Run a Python program without file locks: ``without_locks.py ERROR [-c] PROGRAM …``."""

from __future__ import annotations

import errno
import fcntl
import os
import runpy
import sys


def main() -> None:
    """Make each lock fail with an error, then run the program."""
    number = getattr(errno, sys.argv[1])

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    fcntl.flock = refused
    del sys.argv[:2]
    if sys.argv[0] == "-c":
        exec(sys.argv.pop(1), {"__name__": "__main__"})
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
