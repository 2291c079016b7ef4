#!/usr/bin/env python3
"""Run a memvault command and record the CPU time of each part of the program.

    python bench/sampled.py FILE ARGUMENT...

A timer interrupts the process every millisecond. The CPU time since the previous interruption
counts for the running part, so a long library call counts in full. The file contains seconds by
part, in JSON. Time before this script counts as the interpreter's. Exit time is the rest of the
time measured by the parent process.
"""

import _signal  # type: ignore[import-not-found]  # as signal, which takes 3 ms to load
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERPRETER, IMPORTS, NUMPY, OUTPUT = "interpreter", "imports", "import of numpy", "output, rest"
PARTS = {
    "vault/scan.py": "scan",
    "vault/folder_watch.py": "scan",
    "files/walk.py": "scan",
    "index/vectors/": "vectors",
    "index/local/vector": "vectors",
    "index/local/static_vector": "vectors",
    "index/local/transformer_vectors.py": "vectors",
    "index/local/soft_match.py": "vectors",
    "index/embedding/": "vectors",
    "index/": "index",
    "recall/": "ranking",
}
"""Maps the beginning of a file's path to the part it belongs to; the first match counts."""
ALL_PARTS = (INTERPRETER, IMPORTS, NUMPY, *dict.fromkeys(PARTS.values()), OUTPUT)
_INTERVAL = 0.001
_IMPORTING = "<frozen importlib"
_PACKAGE = "/memvault/"


def part_of(stack: "list[str]") -> str:
    """Return the part of a stack, given by its files, innermost first.

    Code that runs within an import counts as the import. Otherwise, the innermost file that belongs
    to a part determines it, so that library code counts for its caller.
    """
    if any(file.startswith(_IMPORTING) for file in stack):
        return NUMPY if any("/numpy/" in file for file in stack) else IMPORTS
    for file in stack:
        _, _, path = file.rpartition(_PACKAGE)
        for beginning, part in PARTS.items():
            if path.startswith(beginning) and path != file:
                return part
    return OUTPUT


def main() -> None:
    """Run the command under the timer; the file is written when it exits."""
    used = time.process_time()
    found = dict.fromkeys(ALL_PARTS, 0.0)
    found[INTERPRETER] = used
    output, *arguments = sys.argv[1:]

    def sample(_: int, frame: "FrameType | None") -> None:
        nonlocal used
        stack = []
        while frame is not None:
            stack.append(frame.f_code.co_filename)
            frame = frame.f_back
        now = time.process_time()
        found[part_of(stack)] += now - used
        used = time.process_time()

    def write_and_exit(code: int) -> None:
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        found[OUTPUT] += time.process_time() - used
        import json

        with open(output, "w", encoding="utf-8") as file:
            json.dump(found, file)
        exit_now(code)

    exit_now, os._exit = os._exit, write_and_exit  # type: ignore[assignment]
    sys.argv = ["memvault", *arguments]
    _signal.signal(_signal.SIGALRM, sample)
    _signal.setitimer(_signal.ITIMER_REAL, _INTERVAL, _INTERVAL)
    from memvault.__main__ import main as run

    code = run()
    os._exit(code or 0)


if __name__ == "__main__":
    main()
