"""Faults in vaults, as real files, and helpers to inspect them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from conftest import called, write
from made_secrets import made
from memvault import Vault
from memvault.vault.document import etag

OLD = time.time() - 3 * 86_400
HEADER = "---\nid: {}\nmemory_type: fact\n---\n\n{}\n"
MARKS = "<<<<<<< HEAD\nThey dig.\n=======\nThey sleep.\n>>>>>>> theirs\n"


class Fault(NamedTuple):
    """A fault: files with given contents, the file that is reported, and the fix.

    ``fixed`` is whether ``--fix`` repairs it, ``undone`` whether undo reverts the fix, and
    ``for_good`` whether the fix requires ``--only``.
    """

    code: str
    path: str
    files: dict[str, str | bytes] = {}  # noqa: RUF012  # never changed
    fixed: bool = False
    undone: bool = False
    make: Callable[[Path], object] = lambda _: None
    for_good: bool = False


def old(path: str) -> Callable[[Path], None]:
    """Return a function that sets a file's times to some days ago."""
    return lambda root: os.utime(root / path, (OLD, OLD))


def linked(path: str, other: str) -> Callable[[Path], None]:
    """Return a function that hard-links two paths, as an interrupted change does."""

    def link(root: Path) -> None:
        (root / other).parent.mkdir(parents=True)
        os.link(root / path, root / other)

    return link


def large(path: str) -> Callable[[Path], None]:
    """Return a function that makes a file larger than the limit without using disk space."""
    return lambda root: os.truncate(root / path, (64 << 20) + 1)


def with_repository(root: Path) -> None:
    """Make a vault, and a folder in it, look like git repositories."""
    (root / ".git").mkdir()
    write(root, "sub/.git", "gitdir: elsewhere\n")


def copy(name: str, text: str = "Same.") -> Fault:
    """Return a copy of a memory that a sync program saved under another name."""
    same = text == "Same."
    files: dict[str, str | bytes] = {
        "fact/bee.md": HEADER.format("bee", "Same."),
        f"fact/{name}.md": HEADER.format("bee", text),
    }
    return Fault("sync-conflict", f"fact/{name}.md", files, fixed=same, undone=same)


COPIES = (
    "bee.sync-conflict-20260102-101112-ABCDEFG",
    "bee (Anna's conflicted copy 2026-01-02)",
    "bee (Conflicted copy iPhone 202601021011)",
    "bee (conflicted copy 2026-01-02 101112)",
    "bee (CONFLICT 20260102T101112)",
    "bee (conflict 2026-01-02)",
    "bee_conflict-20260102-101112",
    "bee 2",
    "bee (1)",
    "bee~HEAD",
    "bee~02d8a2c (Say more)",
)
TWICE = "---\nid: bee-2\nconflict_with: '[[{}]]'\n---\n\nThey sting.\n"
OVERDUE = "---\n---\n\nOld.\n"
OLD_TAG = etag(OVERDUE.encode())

FAULTS = [
    Fault("front-matter-broken", "a.md", {"a.md": "---\na: [\n---\n\nText.\n"}),
    Fault("front-matter-broken", "a.md", {"a.md": "---\na: 1\n\nText.\n"}),
    Fault(
        "front-matter-broken",
        "agents/main/goals/g.md",
        {"agents/main/goals/g.md": "---\nid: [\n---\n\nText.\n"},
    ),
    Fault("git-markers", "a.md", {"a.md": f"# A\n\n{MARKS}"}),
    Fault("git-markers", "a.md", {"a.md": f"---\nid: a7\n{MARKS}---\n\nText.\n"}),
    Fault("git-markers", "a.md", {"a.md": f"\ufeff# A\n\n{MARKS}".encode("utf-16-le")}),
    Fault("git-markers", "agents/main/goals/g.md", {"agents/main/goals/g.md": f"A\n{MARKS}"}),
    Fault("file-too-large", "a.md", {"a.md": "# A\n"}, make=large("a.md")),
    Fault(
        "file-too-large",
        ".memvault/access.json",
        {".memvault/access.json": "{}", ".memvault/.gitignore": "*\n"},
        make=large(".memvault/access.json"),
    ),
    Fault(
        "memory-partly-indexed",
        "a.md",
        {"a.md": "# A\n" + "A line.\n" * 20, "memvault.toml": "[index]\ncharacters = 100\n"},
    ),
    Fault(
        "front-matter-line", "a.md", {"a.md": "---\ntags: [t]\ntitle: Tea: black\n---\n\nText.\n"}
    ),
    Fault("date-unread", "a.md", {"a.md": "---\ncreated: 01/02/2022\n---\n\nText.\n"}),
    Fault("date-form", "a.md", {"a.md": "---\ndate created: Jan 3, 2022\n---\n\nText.\n"}),
    Fault("document-unreadable", "a.pdf", {"a.pdf": "%PDF-1.4"}),
    Fault("file-binary", "a.md", {"a.md": bytes(range(8)) * 200}),
    Fault("not-utf8", "a.md", {"a.md": "# Tür\n".encode("cp1252")}),
    Fault(
        "id-shared",
        "fact/bee copy.md",
        {
            "fact/bee.md": HEADER.format("bee", "They sting."),
            "fact/bee copy.md": HEADER.format("bee", "They buzz."),
        },
        fixed=True,
        undone=True,
    ),
    *(copy(name) for name in COPIES),
    *(copy(name, "Other.") for name in COPIES),
    Fault(
        "sync-conflict",
        "log (conflicted copy 2026-01-02).txt",
        {"log (conflicted copy 2026-01-02).txt": "x"},
    ),
    *(
        Fault("sync-conflict", f"bee.md~{side}", {"bee.md/wasp.md": "# A\n", f"bee.md~{side}": "B"})
        for side in ("HEAD", "main", "02d8a2c (Say a.b)")
    ),
    Fault("kept-twice", "b.md", {"a.md": HEADER.format("bee", "A."), "b.md": TWICE.format("bee")}),
    Fault("link-settled", "b.md", {"b.md": TWICE.format("bee")}, fixed=True, undone=True),
    Fault("secret-in-text", "a.md", {"a.md": HEADER.format("bee", made("AWS key")[1])}),
    Fault("secret-in-text", "a.md", {"a.md": f"# Deploy\n\n{made('password in a URL')[1]}\n"}),
    Fault(
        "secret-in-text",
        "agents/main/goals/g.md",
        {"agents/main/goals/g.md": f"---\nid: g\n---\n\n{made('private key')[1]}\n"},
    ),
    Fault("supersedes-broken", "a.md", {"a.md": "---\nsupersedes: [gone]\n---\n"}),
    Fault("supersedes-broken", "a.md", {"a.md": "---\nsuperseded_by: '[[gone]]'\n---\n"}),
    Fault("supersedes-broken", "a.md", {"a.md": "---\nid: me\nsupersedes: me\n---\n"}),
    Fault(
        "supersedes-circle",
        "a.md",
        {
            "a.md": "---\nsupersedes: b\n---\n",
            "b.md": "# B\n",
            "c.md": "---\nsupersedes: [d, a]\nsuperseded_by: b\n---\n",
            "d.md": "# D\n",
        },
    ),
    Fault("key-twice", "a.md", {"a.md": "---\ntitle: A\n'title' : B\n---\n\nText.\n"}),
    Fault("key-twice", "a.md", {"a.md": "---\nmore:\n  a: 1\n  a: 2\n---\n\nText.\n"}),
    Fault("key-twice", "a.md", {"a.md": "---\nmore: [{a: 1, a: 2}]\n---\n\nText.\n"}),
    Fault("key-twice", "a.md", {"a.md": "---\r{title: A,\r title: B}\r---\r\rText.\r"}),
    Fault("key-twice", "a.md", {"a.md": "\ufeff---\na: 1\na: 2\n---\n".encode("utf-16-le")}),
    Fault(
        "key-twice",
        "agents/main/goals/g.md",
        {"agents/main/goals/g.md": "---\nid: g\nid: h\n---\n\nText.\n"},
    ),
    Fault("id-unusable", "a.md", {"a.md": "---\nid: 202601011200\n---\n\nText.\n"}),
    Fault("id-unusable", "a.md", {"a.md": "---\nid: [two, ids]\n---\n\nText.\n"}),
    Fault("id-unusable", "a.md", {"a.md": "---\nid: a b\n---\n\nText.\n"}),
    Fault("link-broken", "a.md", {"a.md": "See [[nothing|this]] and `[[x]]`.\n"}),
    Fault("names-merge", "bee.md", {"Bee.md": "A.\n", "bee.md": "B.\n"}),
    Fault("names-merge", "x/\u00e9.txt", {"x/\u00e9.txt": "A.\n", "x/e\u0301.txt": "B.\n"}),
    Fault("time-ahead", "a.md", {"a.md": "---\nmodified: 2999-01-01\n---\n"}),
    Fault("time-ahead", "a.md", {"a.md": "---\ndateModified: 2999-01-01\n---\n"}),
    Fault("time-ahead", "a.md", {"a.md": "---\ndate created: 2999-01-01\n---\n"}),
    Fault(
        "time-ahead",
        "a.md",
        {"a.md": "# A\n"},
        make=lambda root: os.utime(root / "a.md", (time.time() + 2e5, time.time() + 2e5)),
    ),
    Fault(
        "tools-unknown",
        "memvault.toml",
        {"memvault.toml": 'version = 1\n[mcp]\ntools = "core, memory_recal"\n'},
    ),
    Fault("vault-inside", "sub/memvault.toml", {"sub/memvault.toml": "version = 1\n"}),
    Fault("vault-inside", "", make=lambda root: write(root.parent, "memvault.toml", "")),
    Fault("read-by-programs", "sub/Claude.md", {"sub/Claude.md": "# Claude\n"}),
    Fault("read-by-programs", "opencode.json", {"opencode.json": "{}"}),
    Fault("read-by-programs", "sub/.cursor", {"sub/a.md": "# A\n", "sub/.cursor/x.mdc": ""}),
    Fault(
        "read-by-programs",
        ".obsidian/plugins",
        {".obsidian/app.json": "{}", ".obsidian/plugins/x/main.js": ""},
    ),
    Fault("repository-inside", "sub", make=with_repository),
    Fault("link-outside", "out", make=lambda root: (root / "out").symlink_to(root.parent)),
    Fault("link-outside", "out.md", make=lambda root: (root / "out.md").symlink_to("/nowhere")),
    Fault("link-dangling", "x.md", make=lambda root: (root / "x.md").symlink_to("gone.md")),
    Fault("link-dangling", "x", make=lambda root: (root / "x").symlink_to("x")),
    Fault("file-special", "x.md", make=lambda root: os.mkfifo(root / "x.md")),
    Fault("git-locked", ".git/index.lock", {".git/index.lock": ""}, make=old(".git/index.lock")),
    Fault("move-left", ".memvault/moving.json", make=lambda root: put_folder(root, "moving.json")),
    Fault(
        "hook-failed",
        ".memvault/hook.json",
        {
            ".memvault/.gitignore": "*\n",
            ".memvault/hook.json": '{"event": "prompt", "time": "2026-11-28", "reason": "no disk"}',
        },
        fixed=True,
    ),
    Fault("private-not-ignored", ".memvault", make=lambda root: put_folder(root, ""), fixed=True),
    Fault(
        "history-over-limit",
        ".memvault",
        {
            ".memvault/.gitignore": "*\n",
            **{
                f".memvault/history/ab/2020010{day}T000000.000Z-{OLD_TAG}.md": OVERDUE
                for day in range(1, 8)
            },
        },
        fixed=True,
        for_good=True,
    ),
    Fault(
        "history-over-limit",
        ".memvault",
        {
            "memvault.toml": "version = 1\n[history]\ntrash_days = 1\n",
            ".memvault/.gitignore": "*\n",
            ".memvault/trash/20200101T000000.000Z-abcdef/a.md": OVERDUE,
        },
        fixed=True,
        for_good=True,
    ),
    Fault(
        "temporary-left",
        "fact/.a.md.999999999-abcd1234.tmp",
        {"fact/.a.md.999999999-abcd1234.tmp": "half"},
        make=old("fact/.a.md.999999999-abcd1234.tmp"),
        fixed=True,
    ),
    *(
        Fault(
            "revision-damaged",
            f".memvault/history/ab/{name}",
            {f".memvault/history/ab/{name}": text, ".memvault/.gitignore": "*\n"},
        )
        for name, text in (
            (f"29990101T000000.000Z-{OLD_TAG}.md", "---\n---\n\nOld"),
            (f"29990101T000000.000Z-{OLD_TAG}.md", ""),
            ("29990101T000000.000Z-.md", OVERDUE),
            (f"29990101T00000.000Z-{OLD_TAG}.md", OVERDUE),
        )
    ),
    Fault(
        "revision-damaged",
        f".memvault/history/ab/29990101T000000.000Z-{OLD_TAG}.md",
        {".memvault/history/ab/.keep": "", ".memvault/.gitignore": "*\n"},
        make=lambda root: (
            root / f".memvault/history/ab/29990101T000000.000Z-{OLD_TAG}.md"
        ).symlink_to("gone"),
    ),
    Fault(
        "revision-linked",
        f".memvault/history/ab/29990101T000000.000Z-{OLD_TAG}.md",
        {"a.md": OVERDUE, ".memvault/.gitignore": "*\n"},
        make=linked("a.md", f".memvault/history/ab/29990101T000000.000Z-{OLD_TAG}.md"),
        fixed=True,
    ),
    Fault(
        "revision-linked",
        ".memvault/trash/29990101T000000.000Z-abcdef/a.md",
        {"a.md": "# A\n", ".memvault/.gitignore": "*\n"},
        make=linked("a.md", ".memvault/trash/29990101T000000.000Z-abcdef/a.md"),
        fixed=True,
    ),
    Fault(
        "journal-unreadable",
        ".memvault/journal/1.jsonl",
        {".memvault/journal/1.jsonl": "half a li", ".memvault/.gitignore": "*\n"},
    ),
    Fault(
        "type-unknown",
        "a.md",
        {"a.md": "---\nmemory_type: Design_Decision\n---\n"},
        fixed=True,
        undone=True,
    ),
    Fault("type-unknown", "a.md", {"a.md": "---\nmemory_type: poem\n---\n"}),
    Fault(
        "title-apart",
        "fact/bees.md",
        {"fact/bees.md": "---\nid: bees-abc123\ntitle: Wasps\n---\n\nThey sting.\n"},
    ),
]


def put_folder(root: Path, name: str) -> None:
    """Create a folder in ``.memvault``; if named, with the file by which git recognizes it."""
    (root / ".memvault" / name).mkdir(parents=True)
    if name:
        write(root, ".memvault/.gitignore", "*\n")


def files(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file tracked with the vault."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in found
        if ".memvault" not in path.parts and path.suffix != ".tmp"
    }


def examined(vault: Vault, **given: Any) -> dict[str, Any]:
    """Return doctor's report on a vault."""
    return called(vault, "vault_doctor", **given)


def told(found: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the code and file of each finding."""
    return {(entry["code"], entry["filePath"]) for entry in found["findings"]}


def named(fault: Fault) -> str:
    """Return a name for a fault, for use in test ids."""
    return f"{fault.code}-{fault.path}"
