"""Two clones with random writes and syncs lose nothing and end up equal."""

from __future__ import annotations

import os
import random
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_clones import Clone
from memvault.vault.markdown import has_conflict_markers

STEPS = int(os.environ.get("MEMVAULT_GIT_STEPS", "40"))
"""The number of steps of one run; ``make soak`` runs 300."""
SEEDS = range(int(os.environ.get("MEMVAULT_GIT_SEEDS", "2")))
TITLES = ("Wombats", "Crows", "Bilbies")
TYPES = ("fact", "learning", "context")
SENTENCE = re.compile(r"sentence\d+x")
ID = re.compile(r"^id: (\S+)$", re.MULTILINE)
LINK = re.compile(r"^conflict_with: (.*(?:\n[- ].*)*)", re.MULTILINE)
END = "\n---\n"
NAMED = re.compile(r"\[\[([^\]]+)\]\]")

Ids = dict[str, set[str]]
"""The sentences in each file, by its memId."""


class Kept:
    """The sentences expected in each memory: all that were added and never removed.

    A memory kept in two versions and its copy refer to each other. A sentence that is only in the
    copy then must stay in the copy.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._done: set[tuple[str, str]] = set()
        self._copies: dict[str, set[str]] = {}

    def see(self, clone: Clone) -> Ids:
        """Read a clone's memories."""
        found: Ids = defaultdict(set)
        for path in sorted(clone.root.rglob("*.md")):
            parts = path.relative_to(clone.root).parts
            others = parts[0] in ("agents", "spaces", "tools")
            if others or any(name[0] == "." for name in parts) or not path.is_file():
                continue
            header, text = _parts(path)
            own = ID.search(header)
            assert own, path
            found[own[1]] |= set(SENTENCE.findall(text))
            for names in LINK.findall(header):
                for other in NAMED.findall(names):
                    self._join(own[1], other)
        self._seen |= {(mem_id, sentence) for mem_id, held in found.items() for sentence in held}
        self._done |= {
            (mem_id, sentence)
            for mem_id, sentence in self._seen - self._done
            if sentence not in found.get(mem_id, ()) and self._in_copy(mem_id, sentence, found)
        }
        return found

    def changed(self, before: Ids, clone: Clone) -> None:
        """Read a clone that someone changed: missing sentences were removed on purpose."""
        after = self.see(clone)
        self._done |= {
            (mem_id, sentence)
            for mem_id, held in before.items()
            for sentence in held - after.get(mem_id, set())
        }

    def lost(self, found: Ids) -> set[tuple[str, str]]:
        """Return the sentences that are missing from all files of their memory and its copies."""
        return {
            (mem_id, sentence)
            for mem_id, sentence in self._seen - self._done
            if sentence not in found.get(mem_id, ())
        }

    def __len__(self) -> int:
        return len(self._seen - self._done)

    def _in_copy(self, mem_id: str, sentence: str, found: Ids) -> bool:
        return any(sentence in found.get(one, ()) for one in self._copies.get(mem_id, ()))

    def _join(self, one: str, other: str) -> None:
        both = self._copies.get(one, {one}) | self._copies.get(other, {other})
        for mem_id in both:
            self._copies[mem_id] = both


def _parts(file: Path) -> tuple[str, str]:
    """Return a memory's header and its text."""
    header, _, text = file.read_text("utf-8").partition(END)
    return header, text


class Person:
    """A person who calls random writing tools, and the sentences that must not be lost."""

    def __init__(
        self, clone: Clone, chance: random.Random, said: dict[str, str], kept: Kept
    ) -> None:
        self.clone = clone
        self._chance = chance
        self._said = said
        self._kept = kept

    def act(self, number: int) -> str:
        """Do one random action; return its name."""
        actions: list[Callable[[str], Any]] = [
            self._remember, self._append, self._append, self._section, self._replace, self._retype,
            self._forget, self._restore, self._episode, self._fact, self._procedure, self._outcome,
            self._value, self._goal, self._space, self._talk, self._plan, self._edit, self._undo,
            self._tags, self._rename, self._move, self._rewrite,
        ]  # fmt: skip
        action = self._chance.choice(actions)
        self.do(action, f"sentence{number}x")
        return action.__name__

    def do(self, action: Callable[..., Any], *arguments: str) -> None:
        """Do an action; sentences that it removes are removed on purpose."""
        before = self._kept.see(self.clone)
        action(*arguments)
        self._kept.changed(before, self.clone)

    def append_to(self, path: str, sentence: str) -> None:
        """Add to a memory with a tool."""
        self._call("memory_compound", sentence, query=path, modifications=sentence)

    def put_before(self, path: str, sentence: str) -> None:
        """Add to a memory's text at its beginning with an editor."""
        file = self.clone.root / path
        header, text = _parts(file)
        file.write_text(f"{header}{END}\n{sentence}\n{text}", "utf-8")
        self._said[sentence] = "an editor"

    def paths(self) -> dict[str, str]:
        """Return the paths of all memories by memId."""
        known = self.clone.call("memory_list", limit=1_000)["memories"]
        return {str(entry["memId"]): str(entry["filePath"]) for entry in known}

    def texts(self) -> str:
        """Return all content that this clone has or had: files, revisions, trash, and git."""
        files = [path for path in self.clone.root.rglob("*.md") if path.is_file()]
        kept = "\n".join(path.read_text("utf-8") for path in files)
        return kept + self.clone.git("log", "--all", "--reflog", "--patch", "--full-history")

    def _any(self) -> str:
        """Return the path of some memory."""
        known = sorted(self.paths().values())
        return self._chance.choice(known) if known else ""

    def _call(self, tool: str, sentence: str, **arguments: Any) -> None:
        result = self.clone.vault.call(tool, **arguments)
        if "error" in result:
            assert result["error"]["code"] not in ("bug", "storage"), result
        elif sentence:
            self._said[sentence] = tool

    def _remember(self, sentence: str) -> None:
        title, kind = self._chance.choice(TITLES), self._chance.choice(TYPES)
        tags = self._chance.sample(["a", "b", "c", "d"], 2)
        self._call("memory_remember", sentence, title=title, content=sentence, memoryType=kind,
                   tags=tags)  # fmt: skip

    def _append(self, sentence: str) -> None:
        self.append_to(self._any(), sentence)

    def _section(self, sentence: str) -> None:
        section = self._chance.choice(["One", "Two"])
        arguments = {"query": self._any(), "modifications": sentence, "section": section}
        self._call("memory_compound", sentence, **arguments)

    def _replace(self, sentence: str) -> None:
        arguments = {"query": self._any(), "modifications": sentence, "mode": "replace"}
        self._call("memory_compound", sentence, **arguments)

    def _retype(self, sentence: str) -> None:
        kind = self._chance.choice(TYPES)
        arguments = {"query": self._any(), "modifications": sentence, "memoryType": kind}
        self._call("memory_compound", sentence, **arguments)

    def _forget(self, _: str) -> None:
        if path := self._any():
            self._call("memory_forget", "", query=path, confirm=True)

    def _restore(self, _: str) -> None:
        trash = self.clone.call("memory_restore")["trash"]
        if trash:
            self._call("memory_restore", "", memId=self._chance.choice(trash)["filePath"])

    def _undo(self, _: str) -> None:
        self._call("memory_undo", "")

    def _episode(self, sentence: str) -> None:
        self._call("store_episode", sentence, actions=[sentence], reflection="Well")

    def _fact(self, sentence: str) -> None:
        self._call("store_fact", sentence, fact=f"A {sentence} is so")

    def _procedure(self, sentence: str) -> None:
        self._call("store_procedure", sentence, procedureName="dig", procedurePrompt=sentence)

    def _outcome(self, _: str) -> None:
        success = self._chance.random() < 0.5
        self._call("update_success_rate", "", procedureName="dig", success=success)

    def _value(self, sentence: str) -> None:
        key = self._chance.choice(["k", "l"])
        self._call("set_memories", sentence, memories=[{"key": key, "value": sentence}])

    def _goal(self, sentence: str) -> None:
        goal = {"id": self._chance.choice(["g", "h"]), "description": sentence, "status": "active"}
        self._call("set_goals", sentence, goals=[goal])

    def _plan(self, sentence: str) -> None:
        plan = {"name": "report", "instruction": sentence, "scheduledAt": "2999-01-01"}
        self._call("set_plans", sentence, plans=[plan])

    def _space(self, sentence: str) -> None:
        self._call("enter_space", "", spaceId="team")
        self._call("send_message", sentence, message=sentence)

    def _talk(self, sentence: str) -> None:
        self._call("talk_agent", sentence, agent="bob", message=sentence)

    def _edit(self, sentence: str) -> None:
        if path := self._any():
            with (self.clone.root / path).open("a", encoding="utf-8") as file:
                file.write(f"{sentence}\n")
            self._said[sentence] = "an editor"

    def _rewrite(self, sentence: str) -> None:
        if path := self._any():
            file = self.clone.root / path
            header, text = _parts(file)
            if old := SENTENCE.search(text):
                file.write_text(f"{header}{END}{text.replace(old[0], sentence)}", "utf-8")
                # If no tool or commit has seen the sentence, it is lost.
                self._said.pop(old[0], None)

    def _tags(self, _: str) -> None:
        if path := self._any():
            file = self.clone.root / path
            tags = f"tags: [{', '.join(self._chance.sample('abcdef', 2))}]\n"
            text = re.sub(
                r"^tags:.*\n(?:[- ].*\n)*", "", file.read_text("utf-8"), flags=re.MULTILINE
            )
            file.write_text(text.replace("---\n", f"---\n{tags}", 1), "utf-8")

    def _rename(self, sentence: str) -> None:
        if path := self._any():
            file = self.clone.root / path
            file.rename(file.with_name(f"{self._chance.choice(TITLES)} {sentence}.md".lower()))

    def _move(self, _: str) -> None:
        if path := self._any():
            file = self.clone.root / path
            folders = [*TYPES, "ideas", "ideas/old", "fact/wombats.md"]
            folder = self.clone.root / self._chance.choice(folders)
            if not folder.is_file() and not (folder / file.name).exists():
                folder.mkdir(parents=True, exist_ok=True)
                file.rename(folder / file.name)


@pytest.mark.promise("R34")
@pytest.mark.parametrize("seed", SEEDS)
def test_git_soak_clones_converge_without_loss(clones: tuple[Clone, ...], seed: int) -> None:
    """After random writes and syncs both clones have equal files, no conflict and no loss."""
    chance = random.Random(seed)
    said: dict[str, str] = {}
    kept = Kept()
    people = [Person(clone, chance, said, kept) for clone in clones]

    def sync(person: Person) -> None:
        person.clone.sync()
        kept.see(person.clone)

    for number in range(STEPS):
        person = chance.choice(people)
        person.act(number)
        if chance.random() < 0.1:
            _change_one(people, chance, number)
        if chance.random() < 0.5:  # as with git.autocommit
            person.clone.git("add", "--all")
            person.clone.git("commit", "--quiet", "--allow-empty", "--message", str(number))
        if chance.random() < 0.15:
            sync(chance.choice(people))
    for person in (*people, *people):
        sync(person)
    first, second = (person.clone.texts() for person in people)
    assert first == second
    for path, text in first.items():
        assert not has_conflict_markers(text), path
        assert "<<<<<<<" not in text, path
    for clone in clones:
        assert not clone.git("status", "--porcelain")
        assert clone.vault.call("vault_status")["success"]
    assert kept.lost(kept.see(clones[0])) == set()
    texts = "\n".join(person.texts() for person in people)
    assert [sentence for sentence in said if sentence not in texts] == []
    assert len(said) > STEPS // 3
    assert len(kept) > STEPS // 10


def _change_one(people: list[Person], chance: random.Random, number: int) -> None:
    """Make one person edit a memory and both append to it."""
    ours, others = (person.paths() for person in people)
    both = sorted(ours.keys() & others.keys())
    if both:
        mem_id = chance.choice(both)
        editor = chance.choice([0, 1])
        for who, (person, paths) in enumerate(zip(people, (ours, others), strict=True)):
            if who == editor:
                person.do(person.put_before, paths[mem_id], f"sentence{number}000{who}x")
            person.do(person.append_to, paths[mem_id], f"sentence{number}0000{who}x")
