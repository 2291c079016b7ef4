"""Answer read-only tool calls: ``python -P -m memvault.server.read_worker TOOLS``.

Each line of standard input is a call, and each line of standard output is part of an answer (see
``read_pool``). The process exits at the end of its input, so it never outlives the server.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import signal
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from mcp.shared.exceptions import MCPError

from memvault.call import Caller
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.read_runner import Read
from memvault.process import claimed_stdio, write_whole
from memvault.workspace import UNUSED_SECONDS, Workspace, return_memory

_MAX_VAULTS = 16
"""The maximum number of vaults that stay open."""
_REPORT_INTERVAL = 0.2
"""Seconds between two reports of progress."""
_OBJECTS = 100_000
"""Garbage collection threshold of new objects, as in ``memvault.__main__``."""


class Reader:
    """The open vaults, and the current call."""

    def __init__(self, offer: ToolSelection, written: int) -> None:
        self._offer = offer
        self._written = written
        self._open: OrderedDict[Path, Workspace] = OrderedDict()
        self._reported = 0.0

    def answer(self, request: dict[str, Any]) -> None:
        """Run the tool of a call, and write its result or the protocol's error."""
        vaults = request["caller"]["vaults"]
        caller = Caller(**request["caller"])._replace(
            vaults=None if vaults is None else tuple(vaults)
        )
        read = Read(**{**request, "root": Path(request["root"]), "caller": caller})
        begun, is_first = time.process_time(), read.root not in self._open
        answer: dict[str, Any]
        try:
            shown = read.run(self._workspace(read.root), self._offer)
        except MCPError as error:
            answer = {"refused": [error.code, error.message, error.data]}
        else:
            text = "".join(part.text for part in shown.content if part.type == "text")
            answer = {"result": [text, shown.structured_content, shown.is_error]}
        spent = {"seconds": time.process_time() - begun, "first": is_first}
        self._write({**answer, **spent})

    def _workspace(self, root: Path) -> Workspace:
        workspace = self._open.pop(root, None) or Workspace(root, self._report, long_lived=True)
        self._open[root] = workspace
        if len(self._open) > _MAX_VAULTS:
            self._open.popitem(last=False)[1].close()
        return workspace

    def free_memory(self) -> None:
        """Free the memory of all vaults."""
        for workspace in self._open.values():
            workspace.free_memory()
        return_memory()

    def _report(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self._reported >= _REPORT_INTERVAL:
            self._reported = time.monotonic()
            self._write({"progress": [what, done, total]})

    def _write(self, message: dict[str, Any]) -> None:
        write_whole(self._written, json.dumps(message).encode() + b"\n")


def _receive(descriptor: int, calls: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Queue each call, and end the process when its input ends."""
    with os.fdopen(descriptor, "rb") as lines:
        for line in lines:
            calls.put(json.loads(line))
        os._exit(0)


def main(tools: str) -> None:
    """Answer calls one after the other until the input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # The server handles these signals.
        signal.signal(number, signal.SIG_IGN)
    gc.set_threshold(_OBJECTS, 20, 20)
    calls: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    with claimed_stdio() as (read, written):
        threading.Thread(target=_receive, args=(read, calls), daemon=True).start()
        reader = Reader(ToolSelection(tools), written)
        waited: float | None = None
        while True:
            try:
                reader.answer(calls.get(timeout=waited))
                waited = UNUSED_SECONDS
            except queue.Empty:
                reader.free_memory()
                waited = None


if __name__ == "__main__":
    main(sys.argv[1])
