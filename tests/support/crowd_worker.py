"""A worker that calls random writing tools in a vault at the same time as other workers.

It prints a line per call: the tool, its duration, the time spent waiting for each lock, the total
time asleep (neither working nor waiting for a processor), and the mark in the written text.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from memvault import open_vault
from memvault.files.lock import FileLock
from tool_calls import WRITING_BY_ITSELF, soon

TEXTS = {
    "content",
    "modifications",
    "newText",
    "fact",
    "instruction",
    "description",
    "message",
    "text",
    "procedurePrompt",
    "reflection",
    "value",
    "actions",
}
"""Keys of strings that tools store."""
NAMES = {"memId", "query", "factId"}
"""Keys whose values identify a memory."""
RARE = {"vault_reindex", "model_use"}


def marked(value: Any, mark: str, key: str = "") -> Any:
    """Return arguments whose strings begin with a mark."""
    if isinstance(value, dict):
        return {name: marked(entry, mark, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [marked(entry, mark, key) for entry in value]
    return f"{mark} {value}" if key in TEXTS and isinstance(value, str) else value


def named(arguments: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return arguments that refer to an existing memory."""
    paths = [*Path().glob("*.md"), *Path().glob("*/*.md")]
    memories = [path for path in paths if path.parts[0] not in ("agents", "spaces", "tools")]
    if not memories or chance.random() < 0.2:
        return arguments
    target = chance.choice(contested(memories, chance)).as_posix()
    return {key: target if key in NAMES else value for key, value in arguments.items()}


def contested(files: list[Path], chance: random.Random) -> list[Path]:
    """Half of the time, return the same few files, so that workers often compete for them."""
    return sorted(files)[:3] if chance.random() < 0.5 else files


def watched() -> Counter[str]:
    """Start counting the seconds that this process waits for each lock; return the counters."""
    waits: Counter[str] = Counter()
    acquire = FileLock.acquire

    def counted(lock: FileLock, timeout: float | None = None) -> bool:
        began = time.monotonic()
        try:
            return acquire(lock, timeout)
        finally:
            waits["/".join(lock.path.parts[-2:])] += time.monotonic() - began  # type: ignore[assignment]

    FileLock.acquire = counted  # type: ignore[assignment,method-assign]
    return waits


def awake() -> float:
    """Return the seconds that this thread spent running or waiting for a processor."""
    try:
        ran, queued, _ = Path("/proc/thread-self/schedstat").read_text("ascii").split()
    except OSError:  # Only Linux reports the time spent waiting.
        return time.thread_time()
    return (int(ran) + int(queued)) / 1e9


def work(who: str, seconds: float) -> None:
    """Call tools for ``seconds``."""
    chance = random.Random(who)
    until = time.monotonic() + seconds
    number = 0
    waits = watched()
    while time.monotonic() < until:
        with open_vault(".", agent=chance.choice(["main", who])) as vault:
            for _ in range(20):
                tool = chance.choice([*WRITING_BY_ITSELF, None])
                if tool is not None and tool.name in RARE and chance.random() < 0.95:
                    continue
                number += 1
                mark = f"mark-{who}-{number}-"
                name = tool.name if tool else "memory_undo"
                arguments = marked(named(soon(tool), chance), mark) if tool else {}
                waits.clear()
                began, used = time.monotonic(), awake()
                done = vault.call(name, **arguments)
                took, used = time.monotonic() - began, awake() - used
                told = {"tool": name, "seconds": took, "asleep": took - used, "locks": waits}
                if not done["success"]:
                    told["error"] = done["error"]
                elif mark in json.dumps(arguments):
                    told["mark"] = mark
                print(json.dumps(told), flush=True)
                if time.monotonic() >= until:
                    break


if __name__ == "__main__":
    work(sys.argv[1], float(sys.argv[2]))
