#!/usr/bin/env python3
"""The main job on real text: make a vault, load the sample, remember, recall, compound, forget.

Runs the installed program as a person would and prints what it prints. The
vault stays in .demo/vault, to be looked at.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VAULT = ROOT / ".demo" / "vault"
CACHE = VAULT.parent / "cache"
COMMAND = [sys.executable, "-m", "memvault"]


def main() -> int:
    """Play the demo; return 1 if any step did not do what it should."""
    shutil.rmtree(VAULT.parent, ignore_errors=True)
    VAULT.parent.mkdir()
    for name in [name for name in os.environ if name.startswith("MEMVAULT_")]:
        del os.environ[name]
    os.environ["MEMVAULT_CACHE"] = str(CACHE)
    say("A vault is a folder. The sample is a real project's notes: decisions, ADRs, daily notes,")
    say("Jekyll posts, guides in three languages. None of the files is touched to become memories.")
    shutil.copytree(ROOT / "sample", VAULT)
    show("init")
    show("status")

    say("Recall by words and meaning; the first call also makes the index.")
    expect(show("recall", "why not reciprocal rank fusion?", "--limit", "3"), "Fuse scores")
    say("By keyword alone: identifiers are found whole and in parts, Chinese by pairs.")
    expect(show("recall", "getUserName", "--mode", "keyword", "--limit", "2"), "code names")
    expect(show("recall", "为什么用二元组", "--mode", "keyword", "--limit", "1"), "检索笔记")
    say("By meaning alone, with nothing downloaded.")
    show("recall", "two people save the same file at once", "--mode", "vector", "--limit", "2")
    say("By tag, by filter, and with the reasons for a score.")
    show("recall", "search", "--mode", "tag", "--limit", "2")
    show("list", "--filter", "type == 'learning' and 'measurement' in tags")
    show("recall", "offline model download hangs", "--limit", "1", "--explain")

    say("Remember something new; the nearest memories come back, so that nothing is said twice.")
    new = ("remember", "The demo runs without a network", "Only package installation needs one.")
    expect(show(*new, "--type", "learning", "--tags", "demo,offline"), "Remembered")
    say("Compound: add to it. Its header and everything else in the file stay byte for byte.")
    target = "The demo runs without a network"
    expect(show("compound", target, "Measured on 2026-11-22 in a closed sandbox."), "Compounded")
    show("show", target)

    say("Edit a file with any program: the next recall knows, with no command in between.")
    note = VAULT / "daily" / "2026-11-21.md"
    note.write_text("# 2026-11-21\n\nThe heron project starts on Monday.\n", "utf-8")
    print(f"$ cat > {note.relative_to(VAULT)}")
    expect(show("recall", "when does heron start", "--limit", "1"), "heron")

    say("Forget in two steps: a preview with a token, then the trash. Restore brings it back.")
    expect(show("forget", target), "Would forget 1")
    token = json.loads(quietly("forget", target, "--json"))["confirmToken"]
    expect(show("forget", target, "--confirm", token), "Moved to the trash: 1")
    expect(show("recall", "closed sandbox measured demo", "--limit", "1", "--json"), '"count"')
    expect(show("restore", target), "Restored")

    say("Delete everything derived: only one slower call.")
    shutil.rmtree(CACHE)
    print(f"$ rm -r {CACHE.relative_to(ROOT)}")
    expect(show("recall", "why not reciprocal rank fusion?", "--limit", "1"), "Fuse scores")
    say(f"The vault is in {VAULT.relative_to(ROOT)}.")
    return 0


def say(text: str) -> None:
    """Print a line of the story."""
    print(f"\n# {text}" if text[0].isupper() else f"# {text}")


def show(*arguments: str) -> str:
    """Run a command, print it with its output and time, and return the output."""
    shown = " ".join(f'"{part}"' if " " in part or "'" in part else part for part in arguments)
    print(f"\n$ memvault {shown}", flush=True)
    started = time.perf_counter()
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=VAULT, text=True, capture_output=True, check=False
    )
    print(f"{done.stdout}{done.stderr}".rstrip())
    print(f"({time.perf_counter() - started:.2f} s)")
    if done.returncode:
        sys.exit(f"memvault {shown} ended with {done.returncode}")
    return done.stdout


def quietly(*arguments: str) -> str:
    """Run a command and return its output."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=VAULT, text=True, capture_output=True, check=True
    ).stdout


def expect(output: str, part: str) -> None:
    """End the demo as failed where an output lacks what it must hold."""
    if part not in output:
        sys.exit(f"the demo failed: expected {part!r} in the output above")


if __name__ == "__main__":
    sys.exit(main())
