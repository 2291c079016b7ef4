"""Active memory: memories within a budget, in order of last use, consistent across processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from conftest import Run, called, examples, index_of, indexed, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.embedding import tokenizer
from racing import Racing, raced

_FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # fsync takes no time in memory


def words(number: int) -> str:
    """Return a text with the given number of tokens."""
    text = " ".join(["word"] * number)
    assert tokenizer.count_tokens(text) == number
    return text


def budget(folder: Path, size: int) -> None:
    """Set the token budget of active memory."""
    write(folder, "memvault.toml", f"version = 1\n[active]\nbudget = {size}\n")


def note(folder: Path, name: str, text: str) -> None:
    """Write a memory whose memId does not depend on its path."""
    write(folder, f"{name}.md", f"---\nid: {name}-aaaaaa\ntitle: {name}\n---\n\n{text}\n")


def held(vault: Vault) -> list[str]:
    """Return the active memories, last used first."""
    return [entry["title"] for entry in vault.call("memory_active")["memories"]]


def test_active_load_reports_evicted_memories(folder: Path) -> None:
    """The least recently used memories are evicted in order, and never the loaded one."""
    budget(folder, 10)
    for name in ("one", "two", "three"):
        note(folder, name, words(4))
    note(folder, "big", words(9))
    with open_vault(folder) as vault:
        assert vault.call("memory_load", memId="one")["evicted"] == []
        assert vault.call("memory_load", memId="two")["evicted"] == []
        assert vault.call("memory_load", memId="one")["evicted"] == []
        assert vault.call("memory_load", memId="three")["evicted"] == ["two-aaaaaa"]
        assert vault.call("memory_load", memId="big")["evicted"] == ["one-aaaaaa", "three-aaaaaa"]
        found = vault.call("memory_active")
        assert (found["tokens"], found["budget"], found["left"]) == (9, 10, 1)
        assert held(vault) == ["big"]


def test_active_load_accepts_offset_and_length(folder: Path, vault: Vault) -> None:
    """The requested part is returned with its length, and loading again replaces it."""
    note(folder, "tale", "0123456789")
    part = vault.call("memory_load", MemId="tale", Offset=3, Length=4)
    assert (part["content"], part["length"], part["totalLength"]) == ("3456", 4, 10)
    tail = vault.call("memory_load", memId="tale", offset=8, length=100)
    assert (tail["content"], tail["length"], tail["offset"]) == ("89", 2, 8)
    assert "cutAt" not in tail
    entry = vault.call("memory_active", full=True)["memories"]
    assert [(one["offset"], one["length"], one["content"]) for one in entry] == [(8, 2, "89")]
    assert vault.call("memory_load", memId="tale")["content"] == "0123456789"
    beyond = vault.call("memory_load", memId="tale", offset=10)
    assert beyond["error"]["code"] == "usage"


def test_active_load_cuts_long_memory_and_reports_offset(folder: Path) -> None:
    """A part has at most 20,000 characters and fits the budget; offset loads the next one."""
    note(folder, "long", "a" * 30_000)
    budget(folder, 100_000)
    with open_vault(folder) as vault:
        cut = vault.call("memory_load", memId="long")
        assert (cut["length"], cut["cutAt"], cut["maximum"]) == (20_000, "maximum", 20_000)
        rest = vault.call("memory_load", memId="long", offset=cut["length"])
        assert (rest["length"], rest.get("cutAt")) == (10_000, None)
    note(folder, "many", words(50))
    budget(folder, 7)
    with open_vault(folder) as vault:
        cut = vault.call("memory_load", memId="many")
        assert (cut["cutAt"], cut["tokens"], cut["budget"]) == ("budget", 7, 7)
        assert vault.call("memory_active")["left"] == 0


def test_active_memory_follows_moved_file(folder: Path, vault: Vault) -> None:
    """Renamed files are tracked, edited ones recounted, and deleted ones dropped with a warning."""
    note(folder, "alpha", words(3))
    note(folder, "beta", words(3))
    vault.call("memory_load", memId="alpha")
    vault.call("memory_load", memId="beta")
    (folder / "alpha.md").rename(folder / "moved.md")
    note(folder, "beta", words(5))
    found = vault.call("memory_active")
    assert [(one["filePath"], one["tokens"]) for one in found["memories"]] == [
        ("beta.md", 5),
        ("moved.md", 3),
    ]
    (folder / "moved.md").unlink()
    found = vault.call("memory_active")
    assert held(vault) == ["beta"]
    assert "alpha-aaaaaa" in found["warnings"][0]
    assert "warnings" not in vault.call("memory_active")


def test_active_edit_beyond_budget_evicts_others(folder: Path) -> None:
    """The set never exceeds the budget, even after someone else made a memory longer."""
    budget(folder, 8)
    note(folder, "alpha", words(3))
    note(folder, "beta", words(3))
    with open_vault(folder) as vault:
        vault.call("memory_load", memId="alpha")
        vault.call("memory_load", memId="beta")
        note(folder, "beta", words(30))
        found = vault.call("memory_active")
        assert (found["tokens"], held(vault)) == (8, ["beta"])
        assert "alpha-aaaaaa" in found["warnings"][0]
        budget(folder, 4)
        assert vault.call("memory_active")["tokens"] == 4


def test_active_mutation_requires_active_memory(folder: Path, vault: Vault) -> None:
    """A mutation requires an active memory, keeps a revision and respects an etag."""
    note(folder, "alpha", "Old text.")
    before = (folder / "alpha.md").read_bytes()
    failed = vault.call("memory_mutate", memId="alpha", value="New.")
    assert failed["error"]["code"] == "not_found"
    assert (folder / "alpha.md").read_bytes() == before
    etag = vault.call("memory_load", memId="alpha", length=3)["etag"]
    wrong = vault.call("memory_mutate", memId="alpha", value="New.", ifMatch="0" * 20)
    assert wrong["error"]["code"] == "conflict"
    done = vault.call("memory_mutate", memId="alpha", value=words(6), ifMatch=etag)
    assert done["memId"] == "alpha-aaaaaa"
    assert vault.call("memory_active")["memories"][0]["tokens"] == 6
    assert vault.call("memory_load", memId="alpha")["content"] == words(6)
    old = vault.call("memory_show", memId="alpha", revision=done["previousRevision"])
    assert old["content"].strip() == "Old text."


def test_active_mutation_is_reported_if_set_is_unwritable(
    folder: Path, vault: Vault, write_protect: Callable[[Path], None]
) -> None:
    """If only the list of active memories can't be written, the mutation still succeeds."""
    note(folder, "alpha", "Old.")
    before = vault.call("memory_load", memId="alpha")["etag"]
    own = folder / ".memvault/agents/main/active.json"
    write_protect(own)
    done = called(vault, "memory_mutate", memId="alpha", value="New.")
    assert "active memory" in done["warnings"][0]
    assert "New." in (folder / "alpha.md").read_text("utf-8")
    shown = vault.call("memory_show", memId="alpha", revision=done["previousRevision"])
    assert (shown["etag"], shown["content"].strip()) == (before, "Old.")
    assert vault.call("memory_show", memId="alpha")["etag"] == done["etag"]
    assert vault.call("memory_active", full=True)["memories"][0]["content"] == "New."


def test_active_memories_can_share_a_name(vault: Vault) -> None:
    """Each creation gets its own memId and stores the value exactly as passed."""
    first = vault.call("memory_create", name="Plan", value="One.", tags=["#a b"])
    second = vault.call("memory_create", name="Plan", value="Two.")
    assert first["memId"] != second["memId"]
    assert vault.call("memory_load", memId=first["memId"])["content"] == "One."
    shown = vault.call("memory_show", memId=first["memId"])
    assert (shown["memoryType"], shown["tags"]) == ("context", ["a-b"])
    assert vault.call("memory_mutate", memId=second["memId"], value="Three.")["success"]


def test_active_sets_are_separate_per_agent_and_brain(folder: Path) -> None:
    """A memory that one agent loads is not active for other agents or its own sub-brains."""
    note(folder, "alpha", "Text.")
    with open_vault(folder, "ann") as ann:
        ann.call("memory_load", memId="alpha")
    for other, expected in (("ann", ["alpha"]), ("ann/critic", []), ("main", [])):
        with open_vault(folder, other) as vault:
            assert held(vault) == expected
    with open_vault(folder, "../ann") as vault:
        assert vault.call("memory_active")["error"]["code"] == "usage"
    assert (folder / ".memvault/agents/ann/active.json").is_file()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"pieces": 3}',
        b'{"pieces": [{}, 7]}',
        b"\xff\xfe",
        json.dumps(
            {
                "pieces": [
                    dict.fromkeys(("mem_id", "title", "etag"), "x")
                    | {"path": "../../outside.md"}
                    | dict.fromkeys(("offset", "wanted", "length", "total", "tokens"), 1)
                ]
            }
        ).encode(),
    ],
)
def test_active_damaged_set_is_treated_as_empty(folder: Path, vault: Vault, damage: bytes) -> None:
    """Active memory works with any content of the set's file, and does not read outside files."""
    note(folder, "alpha", "Text.")
    write(folder, ".memvault/agents/main/active.json", damage)
    assert held(vault) == []
    assert vault.call("memory_load", memId="alpha")["success"]
    assert held(vault) == ["alpha"]


LOADING = """
from memvault.__main__ import main

def work(name):
    assert main(["load", name]) == 0
"""


def test_concurrent_active_loads_are_all_kept(folder: Path, racing: Racing) -> None:
    """Loads from ten processes all take effect, and the active set stays within the budget."""
    for number in range(10):
        note(folder, f"n{number}", words(3))
    every = [f"n{number}" for number in range(10)]
    budget(folder, 1_000)
    raced(racing.run(folder, LOADING, [[name] for name in every]))
    with open_vault(folder) as vault:
        assert sorted(held(vault)) == every
    budget(folder, 14)
    raced(racing.run(folder, LOADING, [[name] for name in every]))
    with open_vault(folder) as vault:
        found = vault.call("memory_active")
        assert (len(found["memories"]), found["tokens"]) == (4, 12)


@pytest.mark.parametrize("mode", ["Vector", "keyword", "TAG", "hybrid"])
def test_active_load_accepts_ids_from_search(folder: Path, vault: Vault, mode: str) -> None:
    """Any kind of search, in any letter case, returns memIds that can be loaded."""
    write(folder, "wombat.md", "---\ntags: [wombat]\n---\n\nThe wombat digs.\n")
    (found,) = vault.call("memory_search", query="wombat", type=mode)["results"]
    assert found.keys() == {"memId", "title", "snippet", "score", "strength"}
    assert vault.call("memory_load", memId=found["memId"])["content"] == "The wombat digs."
    nothing = vault.call("memory_search", query="zzzz", type="keyword")
    assert nothing["results"] == []
    assert nothing["message"]


@given(st.text(), st.integers(0, 30))
def test_active_truncated_text_fits_budget(text: str, most: int) -> None:
    """A memory that fits is not cut, and a cut memory is within its budget."""
    length = tokenizer.prefix_within(text, most)
    assert tokenizer.count_tokens(text[:length]) <= most or length == 0
    assert length == len(text) or tokenizer.count_tokens(text) > most


_LONG_WORDS = ("internationalization", "possible", "global", "perform", "the", "CC0-10", "naïve")


@given(st.lists(st.sampled_from(_LONG_WORDS), min_size=1, max_size=9), st.integers(1, 9))
def test_active_cut_keeps_every_word_within_budget(words: list[str], kept: int) -> None:
    """A memory is never cut before a word whose tokens still fit."""
    beginning = " ".join(words[:kept])
    found = tokenizer.prefix_within(" ".join(words), tokenizer.count_tokens(beginning))
    assert found >= len(beginning)


@given(st.text(), st.text())
def test_active_token_count_is_additive(one: str, other: str) -> None:
    """Two strings joined by a space have as many tokens as both together."""
    both = tokenizer.count_tokens(f"{one} {other}")
    assert both == tokenizer.count_tokens(one) + tokenizer.count_tokens(other)


@given(st.text())
@example("日本語の文字 한국어 हिन्दी 🎉👍🏽 naïve ﷽")
@example("[UNK]x [MASK] " + "w" * 120)
def test_active_token_count_matches_tokenizers_library(text: str) -> None:
    """Token counts match the ``tokenizers`` library; unknown tokens count by their length."""
    library, unknown = tokenizer.open_tokenizer()
    encoding = library.encode(text, add_special_tokens=False)
    tokens = zip(encoding.ids, encoding.offsets, strict=True)
    assert tokenizer.count_tokens(text) == sum(
        max(1, len(text[start:end].encode()) // 2) if token == unknown else 1
        for token, (start, end) in tokens
    )


def test_active_long_unknown_word_counts_as_many_tokens() -> None:
    """A long run of letters that is not a word does not count as one token."""
    assert tokenizer.count_tokens("x" * 1_000) >= 300
    assert tokenizer.count_tokens("") == 0


class ActiveAgainstModel(RuleBasedStateMachine):
    """Active memory of a real vault, and a list in the order of use."""

    BUDGET = 12

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="memvault-active-", dir=_FAST))
        budget(self.root, self.BUDGET)
        self.sizes = {f"n{number}": number + 1 for number in range(6)}
        for name, size in self.sizes.items():
            note(self.root, name, words(size))
        self.vault = open_vault(self.root)
        self.model: list[str] = []

    def teardown(self) -> None:
        """Clean up."""
        self.vault.close()
        shutil.rmtree(self.root)

    def fitted(self) -> list[str]:
        """Evict from the model whatever exceeds the budget."""
        out = []
        while sum(min(self.sizes[name], self.BUDGET) for name in self.model) > self.BUDGET:
            out.append(self.model.pop(0))
        return [f"{name}-aaaaaa" for name in out]

    def used(self, name: str) -> list[str]:
        """Use a memory in the model."""
        self.model = [*(other for other in self.model if other != name), name]
        return self.fitted()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool."""
        return self.vault.call(tool, **arguments)

    @rule(name=st.sampled_from([f"n{number}" for number in range(6)]))
    def load(self, name: str) -> None:
        """A load makes the memory the most recently used."""
        evicted = self.call("memory_load", memId=name)["evicted"]
        assert evicted == self.used(name)

    @rule(name=st.sampled_from([f"n{number}" for number in range(6)]))
    def evict(self, name: str) -> None:
        """An eviction removes an active memory."""
        assert self.call("memory_evict", memId=name)["success"] == (name in self.model)
        self.model = [other for other in self.model if other != name]

    @rule(name=st.sampled_from([f"n{number}" for number in range(6)]), size=st.integers(1, 15))
    def mutate(self, name: str, size: int) -> None:
        """A mutation changes a memory's size and makes it the last used."""
        result = self.call("memory_mutate", memId=name, value=words(size))
        assert result["success"] == (name in self.model)
        if name in self.model:
            self.sizes[name] = size
            assert result["evicted"] == self.used(name)

    @precondition(lambda self: self.model)
    @rule(which=st.integers(0, 20), size=st.integers(1, 15))
    def edit(self, which: int, size: int) -> None:
        """An edit by a person keeps the memory's position."""
        name = self.model[which % len(self.model)]
        self.sizes[name] = size
        note(self.root, name, words(size))
        self.call("memory_active")
        self.fitted()

    @rule()
    def reopen(self) -> None:
        """The set survives a restart."""
        self.vault.close()
        self.vault = open_vault(self.root)

    @invariant()
    def holds_the_same(self) -> None:
        """The set equals the model's and is within the budget."""
        found = self.call("memory_active")
        assert [entry["title"] for entry in reversed(found["memories"])] == self.model
        assert sum(entry["tokens"] for entry in found["memories"]) == found["tokens"]
        assert found["tokens"] <= self.BUDGET
        assert found["left"] == self.BUDGET - found["tokens"]


def test_active_set_behaves_like_lru_list() -> None:
    """After any loads, evictions, mutations and edits, the right memories are active."""
    unshrunk = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking takes minutes
    run_state_machine_as_test(
        ActiveAgainstModel,
        settings=settings(max_examples=examples(15), stateful_step_count=20, phases=unshrunk),
    )


@pytest.mark.parametrize("tool", ["memory_mutate", "memory_evict"])
def test_active_name_resolves_as_in_other_tools(folder: Path, vault: Vault, tool: str) -> None:
    """An inactive memory's name never resolves to an active memory whose memId starts with it."""
    given = {"value": "New."} if tool == "memory_mutate" else {}
    note(folder, "use-postgresql-for-all", "Active.")
    note(folder, "use-postgresql", "Not active.")
    note(folder, "Use-Redis", "Not active.")
    note(folder, "use-redis-for-queues", "Active.")
    for name in ("use-postgresql-for-all", "use-redis-for-queues"):
        vault.call("memory_load", memId=name)
    for name in ("use-postgresql", "use-postgresql.md", "Use-Redis"):
        assert vault.call(tool, memId=name, **given)["error"]["code"] == "not_found"
    assert len(held(vault)) == 2
    assert not list(folder.rglob("*New.*"))
    assert vault.call(tool, memId="use-postgresql-f", **given)["success"]


@pytest.mark.parametrize("tool", ["memory_mutate", "memory_evict"])
def test_active_path_resolves_to_current_file(folder: Path, vault: Vault, tool: str) -> None:
    """After renames, a path refers to its current file, not to the one loaded before."""
    given = {"value": "New."} if tool == "memory_mutate" else {}
    note(folder, "alpha", "Loaded.")
    vault.call("memory_load", memId="alpha")
    (folder / "alpha.md").rename(folder / "moved.md")
    write(folder, "alpha.md", "---\nid: other-aaaaaa\n---\n\nAnother.\n")
    assert vault.call(tool, memId="alpha.md", **given)["error"]["code"] == "not_found"
    assert "Loaded." in (folder / "moved.md").read_text("utf-8")
    assert held(vault) == ["alpha"]


def test_active_title_resolves_to_the_only_active_memory(folder: Path, vault: Vault) -> None:
    """If two memories share a title and only one is active, the title means the active one."""
    first = vault.call("memory_create", name="Plan", value="One.")["memId"]
    second = vault.call("memory_create", name="Plan", value="Two.")["memId"]
    assert vault.call("memory_evict", memId="Plan")["error"]["code"] == "ambiguous"
    vault.call("memory_evict", memId=first)
    assert vault.call("memory_mutate", memId="Plan", value="Three.")["memId"] == second


def test_active_memory_with_moved_and_copied_file_stays(folder: Path, vault: Vault) -> None:
    """If a file was both moved and copied, the warning lists both and the set stays complete."""
    note(folder, "alpha", words(3))
    vault.call("memory_load", memId="alpha")
    (folder / "alpha.md").rename(folder / "moved.md")
    shutil.copy(folder / "moved.md", folder / "copy.md")
    for found in (
        vault.call("memory_active", full=True),
        vault.call("memory_create", name="beta", value="Text."),
    ):
        (warning,) = found["warnings"]
        assert "copy.md, moved.md" in warning
    assert held(vault) == ["beta", "alpha"]
    failed = vault.call("memory_mutate", memId="alpha-aaaaaa", value="New.")
    assert failed["error"]["code"] == "ambiguous"
    (folder / "copy.md").unlink()
    found = vault.call("memory_active", full=True)
    assert "warnings" not in found
    assert found["memories"][1]["content"] == words(3)


def test_active_evict_works_for_deleted_file(folder: Path, vault: Vault) -> None:
    """An inactive memory can't be evicted; an active one can, even if its file is gone."""
    note(folder, "alpha", "Text.")
    assert vault.call("memory_evict", memId="alpha")["error"]["code"] == "not_found"
    vault.call("memory_load", memId="alpha")
    (folder / "alpha.md").unlink()
    assert vault.call("memory_evict", memId="alpha")["memId"] == "alpha-aaaaaa"
    assert vault.call("memory_evict", memId="alpha")["error"]["code"] == "not_found"


@pytest.mark.promise("R32")
def test_active_memory_indexes_before_taking_lock(folder: Path, run: Run) -> None:
    """The index is updated to find a moved file before the agent's lock is acquired."""
    write(folder, "one.md", "---\nid: one-aaaaaa\ntitle: one\n---\n\nOne.\n")
    assert run("load", "one").code == 0
    write(folder, "new/one.md", (folder / "one.md").read_bytes())
    (folder / "one.md").unlink()
    shutil.rmtree(index_of(folder))
    with FileLock(folder / ".memvault" / "agents" / "main" / "lock"):
        command = [sys.executable, "-m", "memvault", "active"]
        looking = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        assert indexed(folder, "new/one.md")
        assert looking.poll() is None
    assert looking.wait(60) == 0
