#!/usr/bin/env python3
"""Replay tool uses of agents and measure which memory the hook recalls for each.

    python bench/acts.py [FOLDER]

Each file of bench/acts has the memories of a project, and tool uses, each with the memories that a
colleague would point out at that moment; most have none. Prints, for the projects used for
development and for the held-out ones, the share of right lines and of tool uses with a wrong line.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from memvault.call import LOCAL
from memvault.cli import act_hook
from memvault.workspace import Workspace

ACTS = Path(__file__).resolve().parent / "acts"
_TOOLS = {"before-edit": "Edit", "before-command": "Bash", "after-failure": "Bash"}


def event_of(act: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the hook's event for an act, and the program's JSON."""
    values: dict[str, Any] = {"tool_name": _TOOLS[act["when"]]}
    if act["when"] == "before-edit":
        values["tool_input"] = {"file_path": act["path"], "new_string": act.get("change", "")}
        return "before-tool", values
    values["tool_input"] = {"command": act["command"]}
    if act["when"] == "before-command":
        return "before-tool", values
    return "after-tool", {**values, "error": f"Exit code {act['exit']}\n{act['output']}"}


def replay(project: dict[str, Any], folder: Path) -> Counter[str]:
    """Return the counts of acts with and without a right memory, and of right and wrong lines."""
    (folder / "memvault.toml").write_text("version = 1\n", "utf-8")
    for memory in project["memories"]:
        path = folder / memory["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        header = f"---\nid: {path.stem}-000000\ntitle: {json.dumps(memory['title'])}\n---\n\n"
        path.write_text(f"{header}{memory['text']}\n", "utf-8")
    counts: Counter[str] = Counter()
    workspace = Workspace(folder)
    for session in project["sessions"]:
        for given in session.get("acts", ()):
            event, values = event_of(given)
            act = act_hook.act_of(event, values)
            recalled = (
                act_hook.recall_line(workspace, LOCAL, act, lambda _: True)
                if act is not None
                else None
            )
            line = recalled.text if recalled is not None else ""
            is_right = any(f"({Path(path).stem}-000000)" in line for path in given["right"])
            kind = "relevant" if given["right"] else "irrelevant"
            counts[kind] += 1
            counts[f"{kind}, {given['when']}"] += 1
            counts["right"] += is_right
            counts[f"right, {given['when']}"] += is_right
            counts["wrong"] += bool(line) and not given["right"]
            counts["other memory"] += bool(line) and bool(given["right"]) and not is_right
    workspace.close()
    return counts


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ACTS)
    folder = parser.parse_args().folder
    os.environ.setdefault("MEMVAULT_DEEP", "now")
    totals: dict[str, Counter[str]] = {"development": Counter(), "held out": Counter()}
    for file in sorted(folder.glob("*.json")):
        project = json.loads(file.read_text("utf-8"))
        with tempfile.TemporaryDirectory() as vault, tempfile.TemporaryDirectory() as cache:
            os.environ["MEMVAULT_CACHE"] = cache
            totals["held out" if project["held_out"] else "development"] += replay(
                project, Path(vault)
            )
    print(json.dumps(totals, indent=2))


if __name__ == "__main__":
    main()
