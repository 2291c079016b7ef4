"""A vault compared with a dict: after any calls and manual edits, their contents are equal."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conftest import examples, write
from memvault import open_vault

TITLES = st.sampled_from(["Alpha", "alpha!", "Beta x", "日本", "..", "Alpha 2", "con"])
TEXTS = st.text("ab #é-\n", min_size=1, max_size=20).filter(lambda text: bool(text.strip()))
KINDS = st.sampled_from(["", "fact", "own-type"])
PATHS = st.sampled_from(["a.md", "notes/a.md", "notes/b b.md", "fact/alpha.md", "日本.md"])
WHICH = st.integers(0, 20)
_FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # fsync takes no time in memory


class Entry(NamedTuple):
    """A memory's expected content; ``mem_id`` is empty if its file has no id."""

    body: str
    mem_id: str


class VaultAgainstDict(RuleBasedStateMachine):
    """Calls to a real vault, edits of its files, and the same operations on a dict of paths."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="memvault-model-", dir=_FAST))
        (self.root / "memvault.toml").write_text("version = 1\n", "utf-8")
        self.vault = open_vault(self.root)
        self.model: dict[str, Entry] = {}
        self.trash: list[tuple[str, Entry]] = []
        self.edits = 0

    def teardown(self) -> None:
        """Clean up."""
        self.vault.close()
        shutil.rmtree(self.root)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed."""
        result = self.vault.call(tool, **arguments)
        assert result["success"], (tool, arguments, result)
        return result

    def pick(self, which: int) -> str:
        """Return the name of one of the memories."""
        return sorted(self.model)[which % len(self.model)]

    @rule(title=TITLES, text=TEXTS, kind=KINDS)
    def remember(self, title: str, text: str, kind: str) -> None:
        """A new memory takes a path that was free."""
        made = self.call("memory_remember", title=title, content=text, memoryType=kind)
        assert made["filePath"] not in self.model
        assert made["isUpdate"] is False
        stripped = text.strip("\n")
        self.model[made["filePath"]] = Entry(f"\n{stripped}\n", made["memId"])

    @precondition(lambda self: self.model)
    @rule(which=WHICH, text=TEXTS)
    def update(self, which: int, text: str) -> None:
        """Remembering with a path gives that memory another content."""
        path = self.pick(which)
        old = self.model[path]
        title = self.call("memory_show", memId=path)["title"]
        made = self.call("memory_remember", title=title, content=text, memoryType="", filePath=path)
        assert made["filePath"] == path
        assert made["isUpdate"] is True
        lead = old.body[: len(old.body) - len(old.body.lstrip("\n"))]
        stripped = text.strip("\n")
        self.model[path] = old._replace(body=f"{lead}{stripped}\n")
        assert self.call("memory_show", memId=path)["title"] == title or not old.mem_id

    @precondition(lambda self: self.model)
    @rule(which=WHICH, text=TEXTS)
    def append(self, which: int, text: str) -> None:
        """Compounding keeps the existing content and appends after a blank line."""
        path = self.pick(which)
        old = self.model[path]
        self.call("memory_compound", query=path, modifications=text)
        new = self.call("memory_show", memId=path)["content"]
        stripped = text.strip("\n")
        assert new.startswith(old.body)
        assert new.endswith(f"{stripped}\n")
        assert not new[len(old.body) : len(new) - len(stripped) - 1].strip("\n")
        self.model[path] = old._replace(body=new)

    @precondition(lambda self: self.model)
    @rule(which=WHICH, changed=st.booleans())
    def forget(self, which: int, changed: bool) -> None:
        """A token forgets the shown memories, unless they have changed since."""
        path = self.pick(which)
        shown = self.call("memory_forget", query=path)
        assert [entry["filePath"] for entry in shown["candidates"]] == [path]
        if changed:
            self.edits += 1
            self.edit(path, f"changed {self.edits} times\n")
        token = shown["confirmToken"]
        result = self.vault.call("memory_forget", query=path, confirm=token)
        if changed:
            assert result["error"]["code"] == "conflict"
            return
        assert result["files"] == [path]
        self.trash.append((path, self.model.pop(path)))

    @precondition(lambda self: self.trash)
    @rule(which=WHICH)
    def restore(self, which: int) -> None:
        """A memory returns to its path, or next to it; of several with one path, the latest."""
        wanted = self.trash[which % len(self.trash)][0]
        place = max(number for number, (path, _) in enumerate(self.trash) if path == wanted)
        path, entry = self.trash.pop(place)
        free, number = path, 1
        while free in self.model:
            number += 1
            free = f"{path[:-3]}-{number}.md"
        assert self.call("memory_restore", memId=path)["filePath"] == free
        self.model[free] = entry

    @rule(path=PATHS, text=TEXTS)
    def edit(self, path: str, text: str) -> None:
        """A person writes a new or existing file, without a header."""
        write(self.root, path, text)
        self.model[path] = Entry(text, "")

    @precondition(lambda self: self.model)
    @rule(which=WHICH, path=PATHS)
    def rename(self, which: int, path: str) -> None:
        """A person moves a file, perhaps over another one."""
        old = self.pick(which)
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / old).replace(self.root / path)
        self.model[path] = self.model.pop(old)

    @precondition(lambda self: self.model)
    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        """A person deletes a file."""
        path = self.pick(which)
        (self.root / path).unlink()
        del self.model[path]

    @invariant()
    def holds_the_same(self) -> None:
        """Lists and contents equal the dict's."""
        listed = {entry["filePath"]: entry for entry in self.call("memory_list")["memories"]}
        assert listed.keys() == self.model.keys()
        for path, entry in self.model.items():
            shown = self.call("memory_show", memId=path)
            assert shown["content"] == entry.body
            assert shown["memId"] == listed[path]["memId"] == entry.mem_id or not entry.mem_id
            assert shown["title"] == listed[path]["title"]
        paths = sorted(entry["filePath"] for entry in self.call("memory_restore")["trash"])
        assert paths == sorted(path for path, _ in self.trash)


def test_store_behaves_like_a_dict() -> None:
    """Any sequence of calls and manual edits leaves exactly the expected memories."""
    unshrunk = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking takes minutes
    run_state_machine_as_test(
        VaultAgainstDict,
        settings=settings(max_examples=examples(15), stateful_step_count=12, phases=unshrunk),
    )
