"""Run Python code in a process with pymilvus, like another program that uses an engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import launcher
from engine_server import LOADED


def elsewhere(file: Path, lines: str, *words: str) -> None:
    """Run lines with ``client``, which opens a milvus-lite file exclusively.

    ``words`` are passed as ``sys.argv[1:]``.
    """
    asked = json.dumps([str(file), lines])
    process = launcher.start([asked, *words], others=LOADED, module=__name__, errors=False)
    process.communicate(timeout=120)
    assert process.wait() == 0


def main() -> int:
    """Run the lines in the child process."""
    from pymilvus import MilvusClient

    file, lines = json.loads(sys.argv.pop(1))
    client = MilvusClient(file)
    exec(lines, {"client": client, "sys": sys})
    client.close()
    return 0
