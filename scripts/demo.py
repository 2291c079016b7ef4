#!/usr/bin/env python3
"""Demonstrate the main use case on real text: load the sample, remember, recall, compound, forget.

Runs the installed program as a person would, and prints its output. The vault stays in .demo/vault
for inspection.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / ".demo"
VAULT, CACHE, DELETED = HERE / "vault", HERE / "cache", HERE / "deleted"
QUESTION = ("recall", "why do we fuse scores?")
ANSWER = "1. Fuse scores instead of ranks"


def main() -> None:
    """Run the demo; exit with a message if a step fails."""
    if sys.getfilesystemencoding() == "ascii":  # a locale without UTF-8; memvault does the same
        os.execv(sys.executable, [sys.executable, "-X", "utf8", __file__])
    if isinstance(sys.stdout, io.TextIOWrapper):  # keep messages after the output they refer to
        sys.stdout.reconfigure(line_buffering=True)
    delete(VAULT)
    delete(CACHE)
    for name in [name for name in os.environ if name.startswith("MEMVAULT_")]:
        del os.environ[name]
    os.environ["MEMVAULT_CACHE"] = str(CACHE)
    os.environ["MEMVAULT_RESIDENT"] = "off"
    say(
        "A vault is a folder. The sample contains a real project's notes: decisions, daily notes,\n"
        "# posts, and guides in three languages. Turning it into a vault does not change the files."
    )
    shutil.copytree(ROOT / "sample", VAULT)
    expect(show("init"), "37 markdown files")

    say("Recall by words and meaning; the first call also builds the index.")
    expect(show(*QUESTION, "--limit", "2"), ANSWER)
    say("By keyword only: identifiers match by their parts, Chinese text by pairs of characters.")
    expect(show("recall", "getUserName", "--mode", "keyword", "--limit", "1"), "code names")
    expect(show("recall", "为什么用二元组", "--mode", "keyword", "--limit", "1"), "检索笔记")
    say("By meaning only, without a download.")
    meaning = ("recall", "two people save the same file at once", "--mode", "vector")
    expect(show(*meaning, "--limit", "1"), "Keeping files safe")
    say("By tag, and by a filter on header values.")
    expect(show("recall", "search", "--mode", "tag", "--limit", "1"), "#search")
    expect(show("list", "--filter", "type == 'learning' and 'measurement' in tags"), "1 of 1")

    say("Remember something new. The most similar memories are listed, to avoid duplicates.")
    target = "A model is fetched when asked for"
    new = ("remember", target, "Offline, fastembed retries for forty seconds.")
    expect(show(*new, "--type", "learning", "--tags", "demo,offline"), "Offline fastembed")
    say("Compound: add to a memory. Every other byte of the file stays unchanged.")
    expect(show("compound", target, "The demo needs no network."), "Compounded")
    expect(show("show", target), "The demo needs no network.")

    say("Edit a file with any program; the next recall finds the change.")
    note, text = VAULT / "daily" / "2026-11-21.md", "The heron project starts on Monday."
    print(f"\n$ echo '{text}' > {note.relative_to(VAULT)}")
    note.write_text(f"{text}\n", "utf-8")
    expect(show("recall", "when does heron start", "--limit", "1"), "heron")

    say("Forget in two steps: a preview with a token, then the trash. Restore moves it back.")
    preview = expect(show("forget", target), "Would forget 1")
    token = preview.split()[-1].rstrip("`")
    expect(show("forget", target, "--confirm", token), "Moved to the trash: 1")
    expect(show("restore", target), "Restored")

    say("Delete the cache: only the next call is slower.")
    print(f"\n$ rm -r {CACHE.relative_to(ROOT)}")
    delete(CACHE)
    expect(show(*QUESTION, "--limit", "1"), ANSWER)
    say(f"The vault is in {VAULT.relative_to(ROOT)}.")


def delete(folder: Path) -> None:
    """Delete a folder after moving it away, because a process may be writing into the cache."""
    shutil.rmtree(DELETED, ignore_errors=True)
    if folder.exists():
        folder.rename(DELETED)
        shutil.rmtree(DELETED)


def say(text: str) -> None:
    """Print a heading for the next step."""
    print(f"\n# {text}")


def show(*arguments: str) -> str:
    """Run a command, print it with its output and time, and return the output."""
    shown = " ".join(f'"{part}"' if " " in part or "'" in part else part for part in arguments)
    print(f"\n$ memvault {shown}", flush=True)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "memvault", *arguments],
        cwd=VAULT,
        text=True,
        capture_output=True,
        check=False,
    )
    print(f"{done.stdout}{done.stderr}".rstrip())
    print(f"({time.perf_counter() - started:.2f} s)")
    if done.returncode:
        sys.exit(f"memvault {shown} ended with {done.returncode}")
    return done.stdout


def expect(output: str, part: str) -> str:
    """Return an output, or exit with a failure if it lacks a given part."""
    if part not in output:
        sys.exit(f"the demo failed: expected {part!r} in the output above")
    return output


if __name__ == "__main__":
    main()
