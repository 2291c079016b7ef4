"""The rules of consolidation, for whatever episodes: the same in any order, and never twice."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run
from episodes import WEEK, put, put_all
from memvault import Vault
from memvault.consolidation import rules
from memvault.consolidation.proposals import ConsolidationInput, Proposals
from memvault.consolidation.rules import parts, step
from memvault.consolidation.statements import LEAST_WORDS, Statement, StatementIndex, shortens
from memvault.index.text.analysis import analyser
from memvault.memories.episodes import Episode
from memvault.memories.facts import TYPE
from memvault.model import Memory

ENGLISH = analyser("english")
NOW = datetime(2026, 11, 22, tzinfo=UTC)

_WORDS = "cache build limit Docker is the not slow fast 12 60 old".split()
SENTENCES = st.one_of(
    st.sampled_from(
        [
            "The build needs the Docker daemon",
            "build requires the Docker daemon running",
            "The API limit is 100 a minute",
            "The API limit is 60 a minute",
            "Never push to the main branch",
            "Push to the main branch",
            "缓存总是在周一早上变慢",
        ]
    ),
    st.lists(st.sampled_from(_WORDS), min_size=3, max_size=6).map(" ".join),
)
ACTIONS = st.lists(
    st.sampled_from(["Run tests", "run the tests.", "Commit", "Push", "Ask Ana", "---"]), max_size=7
)
EPISODES = st.lists(
    st.builds(
        lambda said, context, actions, success, skills: (said, context, actions, success, skills),
        st.lists(SENTENCES, max_size=3).map(". ".join),
        st.lists(SENTENCES, max_size=2),
        ACTIONS,
        st.booleans(),
        st.lists(st.sampled_from(["git.push", "talk"]), max_size=2, unique=True),
    ),
    max_size=7,
).map(
    lambda made: [
        Episode(
            f"e{place}",
            f"episode/e{place}.md",
            "",
            "",
            context,
            actions,
            [],
            skills,
            said,
            0.5,
            success,
            "",
        )
        for place, (said, context, actions, success, skills) in enumerate(made)
    ]
)


def held(mem_id: str, text: str, confidence: float, archived: bool = False) -> Memory:
    """A fact of the vault."""
    header = {"confidence": confidence, **({"status": "archived"} if archived else {})}
    return Memory(f"fact/{mem_id}.md", mem_id, "", TYPE, (), "", "2026-01-01", header, text, "")


FACTS = st.lists(st.tuples(SENTENCES, st.sampled_from([0.5, 0.9]), st.booleans()), max_size=4).map(
    lambda made: [
        held(f"f{place}", text, sure, archived) for place, (text, sure, archived) in enumerate(made)
    ]
)


def proposed(found: ConsolidationInput) -> Proposals:
    """What the rules make of it."""
    return rules.propose(found, ENGLISH, NOW)


def held_after(
    found: ConsolidationInput, proposals: Proposals, facts: int, procedures: int
) -> ConsolidationInput:
    """The vault once so many of the proposals are written, and the facts merged if all are."""
    made = [
        held(f"n{place}", new.text, new.confidence)
        for place, new in enumerate(proposals.facts[:facts])
    ]
    gone = set()
    if facts >= len(proposals.facts):
        gone = {merge.other.mem_id for merge in proposals.merged}
    kept = [
        memory._replace(metadata={**memory.metadata, "status": "archived"})
        if memory.mem_id in gone
        else memory
        for memory in found.facts
    ]
    learned = [
        Memory("", "", new.name, "procedure", (), "", "", {"skill_id": new.skill}, new.prompt, "")
        for new in proposals.procedures[:procedures]
    ]
    return found._replace(facts=[*kept, *made], procedures=[*found.procedures, *learned])


@given(EPISODES, FACTS, st.randoms(use_true_random=False))
def test_the_order_of_episodes_and_facts_does_not_matter(
    episodes: list[Episode], facts: list[Memory], chance: random.Random
) -> None:
    """Two machines that list files in another order propose the same."""
    one = proposed(ConsolidationInput(episodes, facts, [], []))
    chance.shuffle(mixed := list(episodes))
    chance.shuffle(others := list(facts))
    other = proposed(ConsolidationInput(mixed, others, [], []))
    assert one == other


@given(EPISODES, FACTS)
def test_every_proposal_names_episodes_that_are_there(
    episodes: list[Episode], facts: list[Memory]
) -> None:
    """Nothing is proposed without at least two episodes that it comes from."""
    found = proposed(ConsolidationInput(episodes, facts, [], []))
    known = {episode.episode_id: episode for episode in episodes}
    sources = [new.episodes for new in found.facts] + [new.episodes for new in found.procedures]
    for named in sources:
        assert len(set(named)) == len(named) >= rules.REPEATED
        assert known.keys() >= set(named)
    for procedure in found.procedures:
        went_well = sum(known[name].success for name in procedure.episodes)
        assert procedure.success_rate == round(went_well / len(procedure.episodes), 4) > 0.5
    ids = [new.proposal for new in found.facts] + [new.proposal for new in found.procedures]
    ids += [merge.proposal for merge in found.merged]
    assert len(set(ids)) == len(ids)
    names = [entry.name.casefold() for entry in found.procedures]
    assert len(set(names)) == len(names)


@given(EPISODES, FACTS, st.integers(0, 6), st.integers(0, 4))
def test_what_was_written_is_not_proposed_again(
    episodes: list[Episode], facts: list[Memory], done: int, learned: int
) -> None:
    """After any part of the proposals was written the rest is proposed, and then nothing."""
    start = ConsolidationInput(episodes, facts, [], [])
    first = proposed(start)
    part = proposed(held_after(start, first, done, learned))
    assert part.facts == first.facts[done:]
    assert part.procedures == first.procedures[learned:]
    whole = proposed(held_after(start, first, len(first.facts), len(first.procedures)))
    assert (whole.facts, whole.procedures, whole.merged) == ([], [], [])


@given(EPISODES)
def test_no_procedure_is_a_part_of_another(episodes: list[Episode]) -> None:
    """The longest sequence stands for its parts."""
    found = [
        tuple(step(line.partition(" ")[2], ENGLISH) for line in entry.prompt.splitlines())
        for entry in proposed(ConsolidationInput(episodes, [], [], [])).procedures
    ]
    for place, whole in enumerate(found):
        assert not set(parts(whole)).intersection(found[:place] + found[place + 1 :])


_KILLED = """
import os, sys
left = int(sys.argv[1])
for name in ("link", "replace", "rename"):
    def dying(source, target, *rest, real=getattr(os, name), **more):
        global left
        if str(target).endswith(".md") and ".memvault" not in str(target):
            left -= 1
            if left < 0:
                os._exit(9)
        return real(source, target, *rest, **more)
    setattr(os, name, dying)
from memvault.__main__ import main
sys.argv = ["memvault", "consolidate", "--apply", "--json"]
sys.exit(main())
"""


def test_killed_half_way_it_goes_on_where_it_was(run: Run, folder: Path) -> None:
    """Killed before any of its writes, the next run writes what is missing and nothing twice."""
    put_all(folder, WEEK)
    put(folder, "forgettable", importance=0.1, days=200)
    kills = 0
    for writes in (0, 1, 1, 1, 1, 1, 1, 1, 1, 1):
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(writes)],
            cwd=folder, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 9), done
        kills += done.returncode == 9
    assert kills == 7
    assert len(list((folder / "fact").glob("[!.]*"))) == 4
    assert len(list((folder / "procedure").glob("[!.]*"))) == 2
    left = run("consolidate", "--json").json
    assert left["facts"] == left["procedures"] == left["forgotten"] == []


@pytest.mark.parametrize(
    ("said", "proposed"),
    [
        ("Never deploy on Friday.", True),
        ("All good. Tests passed.", False),
        ("TODO: check the staging logs later.", False),
        ("See https://example.org/a/b for more.", False),
    ],
)
def test_a_rule_is_a_fact_and_a_remark_is_none(vault: Vault, said: str, proposed: bool) -> None:
    """A short rule that repeats is proposed; tasks, links, remarks and situations are not."""
    for number in range(3):
        vault.call(
            "store_episode",
            context=["Meeting room 3 downstairs"],
            actions=[f"Did {number}"],
            reflection=said,
        )
    facts = vault.call("consolidate_memories")["facts"]
    assert [fact["factText"] for fact in facts] == ([said] if proposed else [])


WORDS = ["cache", "server", "backup", "log", "a1", "7", "not"]
FIXED = frozenset({"not", "a1"})


def said(stems: tuple[str, ...], text: str = "") -> Statement:
    """Return a statement of stems, of which those that are fixed may not go."""
    return Statement(text or " ".join(stems), (stems, ("", "")), FIXED.intersection(stems))


def shorter(whole: Statement) -> set[tuple[str, ...]]:
    """Return by trying what a statement is without one word of four, or two of eight."""
    stems = whole.stems
    free = [
        place for place, stem in enumerate(stems) if stem not in whole.fixed and not stem.isdigit()
    ]
    return {
        kept
        for count in range(1, min(2, len(stems) // 4) + 1)
        for gone in combinations(free, count)
        if len(kept := tuple(s for n, s in enumerate(stems) if n not in gone)) >= LEAST_WORDS
    }


statements = st.lists(st.sampled_from(WORDS), min_size=1, max_size=10).map(tuple).map(said)


@given(statements, statements)
def test_what_shortens_a_statement_is_what_trying_finds(one: Statement, other: Statement) -> None:
    """A word or two may go, but no names, numbers or negations, whatever else is there."""
    assert shortens(one, other) == (one.stems in shorter(other))


@given(st.lists(statements, max_size=12), statements)
def test_the_statement_that_says_the_same_is_found(taken: list[Statement], new: Statement) -> None:
    """Looking up finds what comparing with each statement would find."""
    known = StatementIndex(lambda *_: 0.9)
    for entry in taken:
        known.add(entry)
    fitting = [
        entry.key
        for entry in taken
        if entry.stems in shorter(new) or new.stems in shorter(entry) or entry.key == new.key
    ]
    found = known.find(new)
    assert (found.key if found else None) == (
        new.key if new.key in fitting else min(fitting, default=None)
    )


def test_a_long_sentence_takes_little_memory() -> None:
    """A thousand sentences of forty words are kept in a few megabytes."""
    known = StatementIndex(lambda *_: 0.0)
    many = [said(tuple(f"w{number}x{place}" for place in range(40))) for number in range(1_000)]
    tracemalloc.start()
    for entry in many:
        known.add(entry)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000
