"""A process killed at any point leaves a vault that works."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import SOAK, index_of, sampled, some_of, titles, write
from copies import Copy
from faults import ERRORS, KILL, Ended, Faults
from killing import Killing
from memvault import Vault, errors, open_vault
from tool_calls import CHANGING, WRITING_BY_ITSELF, soon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at files in /proc")

REVISION = re.compile("TIME[0-9a-f]{10}")
LEASED = re.compile(r"\.memvault/(agents/\w+)/leases/[^/]+/")
FAULTS = (KILL, *ERRORS)
STATED = {kind.code: kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")}
OLD = time.time() - 7_200


class Contents(NamedTuple):
    """The files in a vault, tracked and machine-local, with their content by name."""

    vault: dict[str, bytes]
    private: dict[str, bytes]

    def normal(self) -> Counter[tuple[str, str]]:
        """Return tracked files' content by name, without values that differ between runs."""
        return Counter(
            (normal(name), normal(data))
            for name, data in self.vault.items()
            if not name.endswith(".tmp")
        )

    def returning(self) -> Contents:
        """Return the files after restoring the events that the next inbox read requeues."""
        back = {LEASED.sub(r"\1/inbox/", name): data for name, data in self.private.items()}
        return Contents(self.vault | {n: d for n, d in back.items() if "/inbox/" in n}, {})

    def names(self) -> set[str]:
        """Return all names without parts that differ between runs."""
        return {REVISION.sub("TIME", normal(name)) for name in (*self.vault, *self.private)}


def normal(data: str | bytes) -> str:
    """Return a text without times, ids and hashes."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    for pattern, name in CHANGING:
        text = pattern.sub(name, text)
    return re.sub(r"(?m)^- \d\d:\d\d ", "- TIME ", text)  # an item in a daily note


class Session:
    """A vault in which each writing tool is called, restored for each call."""

    def __init__(self, filled: Path, base: Path) -> None:
        self.root = base / "vault"
        self.cache = base / "cache"
        made = Path(shutil.copytree(filled, base / "made"))
        with open_vault(made) as vault:
            for tool, arguments in (
                ("memory_compound", {"query": "m1", "modifications": "More."}),
                ("memory_remember", {"title": "Gone", "content": "Gone.", "memoryType": "fact"}),
                ("memory_forget", {"query": "Gone", "confirm": True}),
            ):
                assert vault.call(tool, **arguments)["success"]
        self._copy = Copy(made, self.root)
        shutil.copytree(made, base / "warm")
        self.faults = Faults([self.root, self.cache], base / "scratch", base / "warm")
        self.before = self.contents()
        self.calls = {tool.name: self._words(tool.name, soon(tool)) for tool in WRITING_BY_ITSELF}
        assert self.after().code == 0
        self.names_later = self.contents().names() | self.before.names()
        self.calls["memory_compound, moving"] = self._words(
            "memory_compound", {"query": "m3", "modifications": "x", "memoryType": "issue"}
        )
        self.calls["memory_undo"] = self._words("memory_undo", {})
        self.calls["memory_restore, trash"] = self._words("memory_restore", {"memId": "Gone"})
        self.calls["trash_empty"] = self._words("trash_empty", {"confirm": True})

    def _words(self, tool: str, arguments: object) -> list[str]:
        return ["--vault", str(self.root), "--json", "call", tool, json.dumps(arguments)]

    def reset(self) -> None:
        """Restore the vault; its index is missing."""
        shutil.rmtree(self.cache, ignore_errors=True)
        self._copy.put_back()

    def contents(self) -> Contents:
        """Return the vault's current files."""
        found = Contents({}, {})
        for path in self.root.rglob("*"):
            if path.is_file():
                name = path.relative_to(self.root).as_posix()
                (found.private if name.startswith(".memvault/") else found.vault)[name] = (
                    path.read_bytes()
                )
        return found

    def after(self) -> Ended:
        """Make calls that find the vault in the state after the fault, some time later."""
        for folder in (self.root, self.cache):
            for left in folder.rglob(".*.tmp"):
                os.utime(left, (OLD, OLD))
        return self.faults.run(
            self._words("store_fact", {"fact": "After"}),
            self._words("set_goals", {"goals": [{"id": "after", "description": "x"}]}),
            self._words("peek_inbox", {"count": 1}),
        )

    def looked_after(self) -> Ended:
        """Run doctor with fix, which deletes the leftovers of killed processes."""
        return self.faults.run(self._words("vault_doctor", {"fix": True}))


class Clean(NamedTuple):
    """A call without a fault: its changes, and the files after it."""

    places: list[str]
    contents: Contents


@pytest.fixture(scope="module")
def session(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The vault, and the process whose copies call the tools."""
    base = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("MEMVAULT_CACHE", str(base / "cache"))
        monkeypatch.setenv("MEMVAULT_DEEP", "off")
        made = Session(filled, base)
        with made.faults:
            yield made


@pytest.fixture(scope="module")
def clean(session: Session) -> dict[str, Clean]:
    """Every call without a fault."""
    return {name: _clean(session, name) for name in session.calls}


def _clean(session: Session, name: str) -> Clean:
    session.reset()
    ended = session.faults.run(session.calls[name])
    assert ended.code == 0, (name, ended)
    return Clean(ended.places, session.contents())


def _tried(session: Session, name: str, clean: Clean, number: int, fault: str) -> list[str]:
    """Make a call with a fault; return the problems after it."""
    session.reset()
    ended = session.faults.run(session.calls[name], number=number, fault=fault)
    now = session.contents()
    wrong = [*_told(ended, fault), *_whole(session.before, clean.contents, now)]
    new, old = clean.contents.normal(), session.before.normal()
    if ended.code == 0 and now.normal() != new:
        wrong.append(f"acknowledged, and not done: {_differing(now.normal(), new)}")
    is_silent = ended.code > 0 and "changed before that" not in ended.out
    is_moving = ".memvault/moving.json" in now.private  # the next call completes the move
    by_git = name.startswith("git_")
    if is_silent and not is_moving and not by_git and now.returning().normal() != old:
        wrong.append(f"did not say what was changed: {_differing(now.normal(), old)}")
    later = session.after()
    if later.code != 0:
        wrong.append(f"later: {later.out} {later.err}")
    known = clean.contents.names() | session.names_later
    left = session.contents().names() - known
    if left:
        assert session.looked_after().code == 0
        left = session.contents().names() - known
    if left:
        wrong.append(f"left: {sorted(left)}")
    return wrong


def _differing(one: Counter[tuple[str, str]], other: Counter[tuple[str, str]]) -> str:
    more, less = (sorted(name for name, _ in found) for found in (one - other, other - one))
    return f"{more} for {less}"


def _told(ended: Ended, fault: str) -> list[str]:
    """Return the problems with the caller's result."""
    if fault == KILL and ended.code == -9:
        return []
    if "Traceback" in ended.err or not ended.json:
        return [f"told {ended.out!r} {ended.err!r}"]
    if ended.code == 0:
        return [] if ended.json["success"] else [f"exit code 0: {ended.json}"]
    error = ended.json["error"]
    fine = (
        error["code"] != "bug"
        and ended.code == STATED[error["code"]]
        and error.get("hint")
        and not error["message"].endswith(".")
        and "\n" not in error["message"]
    )
    return [] if fine else [f"told {ended.code} {error}"]


def _whole(before: Contents, after: Contents, now: Contents) -> list[str]:
    """Return the files whose content is neither old nor new, and the lost files."""
    wrong = []
    known = set(before.normal()) | set(after.normal())
    for name, data in now.vault.items():
        if not name.endswith(".tmp") and (normal(name), normal(data)) not in known:
            wrong.append(f"neither old nor new: {name} {data!r}")
    everything = {*now.vault.values(), *now.private.values()}
    kept = {*after.vault.values(), *after.private.values()}
    for name, data in before.vault.items():
        if data not in everything and data in kept:
            wrong.append(f"lost: {name}")
        if name in after.vault and name not in now.vault:
            wrong.append(f"gone: {name}")
    for name, data in now.private.items():
        if name.endswith(".json"):
            try:
                json.loads(data)
            except ValueError:
                wrong.append(f"half: {name}")
    return wrong


LEAST = {
    "open": 100,
    "write": 80,
    "fsync": 80,
    "link": 35,
    "unlink": 35,
    "rename": 30,
    "mkdir": 35,
    "chmod": 10,
}
"""The minimum number of file operations of each kind that all calls make together."""


def _points(session: Session, clean: dict[str, Clean]) -> list[tuple[str, int, str, bool]]:
    """Return each change of each call: call, number, kind, and whether it is in the vault."""
    return [
        (name, number, place.split(" ")[0], place.split(" ")[1].startswith(str(session.root)))
        for name, call in clean.items()
        for number, place in enumerate(call.places, 1)
    ]


@pytest.mark.promise("R25")
def test_fault_points_cover_every_tool_and_kind(session: Session, clean: dict[str, Clean]) -> None:
    """Every writing tool has fault points, and the number of each kind does not decrease."""
    points = _points(session, clean)
    kinds = Counter(kind for _, _, kind, within in points if within)
    for kind, least in LEAST.items():
        assert kinds[kind] >= least, kinds
    writing = {name for name, _, _, within in points if within}
    assert clean.keys() - writing <= {"call_tool", "vault_doctor", "vault_reindex", "model_use"}
    remembered = [kind for name, _, kind, within in points if name == "store_fact" and within]
    assert remembered == REMEMBERED
    print(json.dumps({"points": len(points), "in the vault": kinds}))


REMEMBERED = [
    *["open", "write", "fsync", "link", "fsync", "unlink"],  # the memory
    *["open", "write"],  # the journal
]
"""The file operations that store a fact, in order."""


@pytest.mark.promise("R26")
def test_fault_at_sampled_points_loses_nothing(session: Session, clean: dict[str, Clean]) -> None:
    """With a fault at one change of each kind in each call, nothing is partial or lost."""
    chosen: dict[tuple[str, str], list[int]] = {}
    for name, number, kind, within in _points(session, clean):
        if within:
            chosen.setdefault((name, kind), []).append(number)
    assert len(chosen) >= 150
    done: Counter[tuple[str, str]] = Counter()
    for turn, ((name, kind), numbers) in enumerate(some_of([*chosen.items()], every=6)):
        number = numbers[turn % len(numbers)]
        fault = FAULTS[(turn // 2) % len(FAULTS)] if turn % 2 else KILL
        wrong = _tried(session, name, clean[name], number, fault)
        assert not wrong, (name, number, fault, wrong)
        done[kind, fault] += 1
    assert done.total() >= 25
    assert {kind for kind, _ in done} >= LEAST.keys()
    assert {fault for _, fault in done} == set(FAULTS)


@pytest.mark.promise("R26")
@pytest.mark.skipif(not SOAK, reason="make soak tries every point")
def test_fault_at_every_point_loses_nothing(session: Session, clean: dict[str, Clean]) -> None:
    """No data is lost after a fault at any change of any call, tried until the time limit."""
    tries = [
        (name, number, fault, kind)
        for name, number, kind, _ in _points(session, clean)
        for fault in FAULTS
    ]
    random.shuffle(tries)  # so that the next soak starts with other points
    until = time.monotonic() + SOAK
    done: Counter[str] = Counter()
    failed = []
    for name, number, fault, kind in tries:
        if time.monotonic() > until:
            break
        wrong = _tried(session, name, clean[name], number, fault)
        if wrong:
            failed.append((name, number, clean[name].places[number - 1], fault, wrong))
        done[f"{kind} {fault}"] += 1
    print(json.dumps({"tries": done.total(), "of": len(tries), "by kind": done}))
    assert not failed, failed[:10]


def recalled(vault: Vault, query: str, mode: str = "keyword") -> list[str]:
    """The titles of all memories that a query finds."""
    return titles(vault.call("memory_recall", query=query, type=mode, limit=500))


_WRITER = """
import tempfile
from pathlib import Path
from memvault import open_vault

def work(root):
    number = 1 + sum(1 for _ in root.glob("[!.]*/*.md"))
    text = f"{number} " * 2000 + "end"
    with open_vault(root) as vault:
        for tool, arguments in (
            ("remember", {"title": f"New {number}", "content": text, "memoryType": ""}),
            ("compound", {"query": "Start", "modifications": text, "mode": "replace"}),
            ("compound", {"query": "Start", "modifications": "x", "mode": "section", "section": "S",
                          "memoryType": ("fact", "issue")[number % 2]}),
        ):
            done = vault.call("memory_" + tool, **arguments)
            assert done["success"], done
with tempfile.TemporaryDirectory() as scratch:  # so that the copies need to load nothing
    Path(scratch, "memvault.toml").touch()
    with open_vault(scratch) as vault:
        vault.call("memory_remember", title="Start", content="x", memoryType="")
        vault.call("memory_compound", query="Start", modifications="x")
"""


def test_killed_writer_leaves_no_partial_file(folder: Path, vault: Vault) -> None:
    """A writer killed before any of its file changes leaves each memory complete."""
    assert vault.call(
        "memory_remember", title="Start", content="0 " * 2_000 + "end", memoryType=""
    )["success"]
    before = shutil.copytree(folder, folder.with_name("before"))
    places = []
    with Killing(folder, _WRITER) as writer:
        for place in writer.everywhere():
            places.append(place.split()[0])
            found = list(folder.glob("[!.]*/[!.]*.md"))
            assert found
            for file in found:
                text = file.read_text("utf-8")
                numbers = set(re.findall(r"^(\d+) .*?end$", text, re.MULTILINE | re.DOTALL))
                assert len(numbers) == 1, (place, file)
                assert text.count(f"{numbers.pop()} ") >= 2_000, (place, file)
            write(folder, "context/.half.md.0abc.tmp", "half")
            listed = vault.call("memory_list")["memories"]
            left = [file for file in found if file.exists()]  # listing has completed a move
            assert len(left) >= len(found) - 1
            assert {entry["filePath"] for entry in listed} == {
                file.relative_to(folder).as_posix() for file in left
            }
            assert not [entry for entry in listed if "problem" in entry]
            done = vault.call("memory_remember", title="After", content="x", memoryType="")
            assert done["success"], place
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
    assert len(places) >= 20
    assert {"open", "os.link", "os.rename", "os.remove"} <= set(places)


_INDEXING = """
import tempfile
from pathlib import Path
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        assert vault.call("memory_recall", query="common", type="keyword")["success"]

with tempfile.TemporaryDirectory() as scratch:  # so that the copies need to load nothing
    Path(scratch, "memvault.toml").touch()
    work(scratch)
"""


NOTES = 40 if SOAK else 16


@sampled(2)
@pytest.mark.promise("R28")
@pytest.mark.parametrize("indexed", [False, True], ids=["never indexed", "indexed"])
def test_killed_indexer_leaves_correct_answers(
    folder: Path, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill before any change to the index, the next recall finds everything."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # the work is done in forks
    for number in range(NOTES):
        write(folder, f"n/{number}.md", f"# Note {number}\n\ncommon word{number}\n")
    index = index_of(folder)

    def as_before() -> None:
        """Make the index missing, or restore the index from before the change."""
        shutil.rmtree(index)
        index_of(folder)
        for number in range(5):
            (folder / f"n/turn{number}.md").unlink(missing_ok=True)
        for number in range(10, 15):
            write(folder, f"n/{number}.md", f"# Note {number}\n\ncommon word{number}\n")
        if indexed:
            with open_vault(folder) as vault:
                assert len(recalled(vault, "common")) == NOTES
        for number in range(5):
            write(folder, f"n/turn{number}.md", f"# Turn {number}\n\ncommon turned{number}\n")
            (folder / f"n/{10 + number}.md").unlink()

    kinds = ("open", "os.mkdir", "os.remove", "os.rename", "sql BEGIN", "sql COMMIT", "sql INSERT")
    places = []
    with Killing(folder, _INDEXING, index) as indexing:
        for kind in kinds:
            as_before()
            for place in indexing.everywhere(kind, 4):
                places.append(place)
                with open_vault(folder) as vault:
                    assert len(recalled(vault, "common")) == NOTES, place
                    assert recalled(vault, "turned3") == ["Turn 3"], place
                    assert recalled(vault, "word13") == [], place
                    assert recalled(vault, "word9", "hybrid")[0] == "Note 9", place
                as_before()
    assert len(places) >= 16
    assert all(any(place.startswith(kind) for place in places) for kind in kinds)
