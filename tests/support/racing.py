"""Run a piece of work in several processes at the same time, forked from a loaded process.

If eight processes are started one by one, they spend most of their time loading modules, and the
first may finish before the last begins. These processes are released together.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ran import Ran

__all__ = ["Racing", "raced"]


class Racing:
    """A process that forks others, started when first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, folder: Path, work: str, given: Sequence[Sequence[object]]) -> list[Ran]:
        """Do some work in one process per argument tuple, all at the same time.

        ``work`` is source code that defines ``work(*arguments)``; it runs in ``folder``.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin
        assert self._process.stdout
        asked = [str(folder), work, [[*arguments] for arguments in given], dict(os.environ)]
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return [Ran(*each) for each in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.communicate(timeout=60)


def raced(ended: Sequence[Ran]) -> list[list[str]]:
    """Check that each process succeeded without errors; return the output lines of each."""
    assert [(each.code, each.err) for each in ended] == [(0, "")] * len(ended), ended
    return [each.out.splitlines() for each in ended]


def _forked(gate: tuple[int, int], outs: Sequence[int], work: Callable[[], None]) -> int:
    """Fork a process that waits until a pipe is closed, then does some work."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for number, file in enumerate(outs, 1):
            os.dup2(file, number)
        os.close(gate[1])
        os.read(gate[0], 1)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _race(folder: str, work: str, given: list[list[Any]], variables: dict[str, str]) -> list[Ran]:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    tempfile.tempdir = None
    defined: dict[str, Any] = {}
    exec(work, defined)
    gate = os.pipe()
    with ExitStack() as opened:
        files = [
            [opened.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)] for _ in given
        ]
        children = [
            _forked(gate, [file.fileno() for file in outs], partial(defined["work"], *arguments))
            for arguments, outs in zip(given, files, strict=True)
        ]
        for end in gate:
            os.close(end)
        ended = []
        for child, outs in zip(children, files, strict=True):
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said = [os.pread(file.fileno(), 1 << 24, 0).decode() for file in outs]
            ended.append(Ran(code, *said))
    return ended


def _serve() -> None:
    """Answer each requested race on standard input with the results of its processes."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # Tokenizer threads do not survive forks.
    from memvault import open_vault

    with tempfile.TemporaryDirectory() as scratch:  # Load everything before forking.
        Path(scratch, "memvault.toml").touch()
        with open_vault(scratch) as vault:
            vault.call("memory_remember", title="a", content="a", memoryType="fact")
            for mode in ("keyword", "hybrid"):
                vault.call("memory_recall", query="a", type=mode)
            vault.call("set_memories", memories=[{"key": "a", "value": "a"}])
            vault.call("store_procedure", procedureName="a", procedurePrompt="a")
            vault.call("peek_inbox")
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(_race(*json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve()
