"""Two clones that are written to at random, with syncs in between, lose nothing and end equal."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from git_clones import Clone, cloned, without_identity
from memvault.vault.markdown import in_conflict

STEPS = int(os.environ.get("MEMVAULT_GIT_STEPS", "40"))
"""Steps of one run; ``make soak`` tries 300."""
SEEDS = range(int(os.environ.get("MEMVAULT_GIT_SEEDS", "2")))
TITLES = ("Wombats", "Crows", "Bilbies")
TYPES = ("fact", "learning", "context")


class Person:
    """Somebody who calls writing tools at random, and what was said that must not be lost."""

    def __init__(self, clone: Clone, chance: random.Random, said: dict[str, str]) -> None:
        self.clone = clone
        self._chance = chance
        self._said = said
        self._forgotten: set[str] = set()

    def act(self, number: int) -> str:
        """Do one thing; return what."""
        actions: list[Callable[[str], Any]] = [
            self._remember, self._append, self._append, self._section, self._replace, self._retype,
            self._forget, self._restore, self._episode, self._fact, self._procedure, self._outcome,
            self._value, self._goal, self._space, self._talk, self._plan, self._edit, self._undo,
        ]  # fmt: skip
        action = self._chance.choice(actions)
        action(f"sentence{number}x")
        return action.__name__

    def texts(self) -> str:
        """Return every text that this clone holds or held: files, revisions, trash, and git."""
        files = [path for path in self.clone.root.rglob("*.md") if ".git" not in path.parts]
        kept = "\n".join(path.read_text("utf-8") for path in files)
        return kept + self.clone.git("log", "--all", "--reflog", "--patch", "--full-history")

    def _any(self) -> str:
        """Return the path of some memory."""
        known = self.clone.call("memory_list")["memories"]
        return str(self._chance.choice(known)["filePath"]) if known else ""

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
        self._call("memory_compound", sentence, query=self._any(), modifications=sentence)

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


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault, where git knows nobody's name."""
    without_identity(monkeypatch, tmp_path / "home")
    yield from cloned(tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_clones_end_equal_and_nothing_is_lost(clones: tuple[Clone, ...], seed: int) -> None:
    """After random writes and syncs both clones have the same files, without a conflict in any."""
    chance = random.Random(seed)
    said: dict[str, str] = {}
    people = [Person(clone, chance, said) for clone in clones]
    for number in range(STEPS):
        person = chance.choice(people)
        person.act(number)
        if chance.random() < 0.5:  # as with git.autocommit
            person.clone.git("add", "--all")
            person.clone.git("commit", "--quiet", "--allow-empty", "--message", str(number))
        if chance.random() < 0.15:
            chance.choice(people).clone.sync()
    for person in (*people, *people):
        person.clone.sync()
    first, second = (person.clone.texts() for person in people)
    assert first == second
    for path, text in first.items():
        assert not in_conflict(text), path
        assert "<<<<<<<" not in text, path
    for clone in clones:
        assert not clone.git("status", "--porcelain")
        assert clone.vault.call("vault_status")["success"]
    texts = "\n".join(person.texts() for person in people)
    assert [sentence for sentence in said if sentence not in texts] == []
    assert len(said) > STEPS // 3
