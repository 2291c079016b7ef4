"""The rules of consolidation: what repeats over episodes, and what may be put away.

Pure: frozen values in, proposals out, the same in whatever order episodes come.
A proposal is made only of episodes that were given, and is not made again once
a fact or a procedure holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from memvault import clock
from memvault.consolidation import repeated_statements, sequences
from memvault.consolidation.contradictions import contradictions
from memvault.consolidation.proposals import (
    Conflict,
    Forgotten,
    Given,
    HeldFact,
    HeldProcedure,
    Merge,
    NewFact,
    NewProcedure,
    Proposals,
    confidence_of,
    proposal_id,
    steps_of,
)
from memvault.consolidation.same_statements import Said
from memvault.consolidation.statements import Alike, Statement, sentences, statement, unmarked
from memvault.index.analysis import Analyser
from memvault.memories import skills
from memvault.memories.episodes import Episode, number
from memvault.memories.procedures import clean_name
from memvault.model import IMPORTANCE, Memory
from memvault.vault.normal_form import normal_form

__all__ = ["FORGOTTEN_AFTER_DAYS", "REPEATED", "UNIMPORTANT", "consider", "propose"]

REPEATED = 2
"""Different episodes that must say or do the same before it is proposed."""
MOSTLY = 0.5
"""A procedure's success rate must be above this."""
UNIMPORTANT = 0.3
"""What is less important than this may be forgotten."""
FORGOTTEN_AFTER_DAYS = 90
_LEAST_OF_FACTS = 2
"""Telling words that a fact needs: somebody has said that it is one."""


def propose(given: Given, analyser: Analyser, alike: Alike, now: datetime) -> Proposals:
    """Return what the built-in rules make of a vault."""
    clusters, wordings = repeated_statements.clusters(given.episodes, analyser, alike)
    facts = [
        NewFact(
            proposal_id("fact", said.key),
            said.text,
            confidence_of(len(ids)),
            ids,
            wordings=repeated_statements.other_wordings(said, wordings[said]),
        )
        for said, ids in clusters
        if len(ids) >= REPEATED
    ]
    facts.sort(key=lambda fact: (-len(fact.episodes), fact.text))
    procedures = _procedures(given.episodes, analyser)
    return consider(given, facts, procedures, clusters, analyser, alike, now)


def consider(
    given: Given,
    facts: Sequence[NewFact],
    procedures: Sequence[NewProcedure],
    clusters: Sequence[tuple[Statement, tuple[str, ...]]],
    analyser: Analyser,
    alike: Alike,
    now: datetime,
) -> Proposals:
    """Leave out what the vault holds already, and add what concerns the facts that it holds.

    ``clusters`` are the statements of episodes that could contradict a new fact.
    """
    fresh = _unheld_facts(given.facts, facts, analyser, alike)
    merged = _merges(given, analyser, alike)
    gone = {merge.other.memory.path for merge in merged}
    return Proposals(
        fresh,
        _unheld_procedures(given.procedures, procedures, analyser),
        merged,
        _conflicts(given.facts, fresh, clusters, analyser),
        _forgotten((memory for memory in given.unused if memory.path not in gone), now),
    )


def _unheld_facts(
    held: Iterable[HeldFact], facts: Iterable[NewFact], analyser: Analyser, alike: Alike
) -> list[NewFact]:
    """Leave out new facts that a fact of the vault, archived ones too, or one before says."""
    known = Said(alike)
    verbatim = set()
    proposals = set()
    for entry in held:
        proposals.add(entry.proposal)
        for text in (entry.memory.title, entry.fact.text, *sentences(entry.fact.text)):
            verbatim.add(_folded(text))
            said = statement(unmarked(text), analyser, _LEAST_OF_FACTS)
            if said is not None:
                known.add(said)
    out = []
    for new in facts:
        said = statement(unmarked(new.text), analyser, _LEAST_OF_FACTS)
        seen = new.proposal in proposals or _folded(new.text) in verbatim
        if not seen and (said is None or known.find(said) is None):
            out.append(new)
        proposals.add(new.proposal)
        verbatim.add(_folded(new.text))
        if said is not None:
            known.add(said)
    return out


def _folded(text: str) -> str:
    return " ".join(unmarked(text).casefold().split()).rstrip(" .!")


def _procedures(episodes: Sequence[Episode], analyser: Analyser) -> list[NewProcedure]:
    """Return the repeated sequences that mostly went well and are no part of a longer one."""
    found = []
    for steps in sequences.repeated([episode.actions for episode in episodes], analyser, REPEATED):
        inside = [episodes[place] for place in steps.episodes]
        rate = sum(episode.success for episode in inside) / len(inside)
        several = len({episode.episode_id for episode in inside}) >= REPEATED  # copies are one
        if several and rate > MOSTLY:
            found.append((steps, inside, rate))
    found.sort(key=lambda entry: (-len(entry[0].key), -len(entry[1]), entry[0].key))
    kept = sequences.Parts()
    out: list[NewProcedure] = []
    for steps, inside, rate in found:
        if steps.key in kept:
            continue
        kept.add(steps.key)
        skill = _common_skill(inside)
        out.append(
            NewProcedure(
                proposal_id("procedure", steps.key),
                skill or _named(steps.texts),
                "\n".join(f"{place}. {text}" for place, text in enumerate(steps.texts, 1)),
                round(rate, 4),
                tuple(sorted({episode.episode_id for episode in inside})),
                skill,
            )
        )
    return out


def _common_skill(episodes: Sequence[Episode]) -> str:
    """Return the one skill that all these episodes used, if there is just one.

    What cannot be the id of a skill is none.
    """
    spelled = [list(filter(None, map(skills.found_id, each.skills_used))) for each in episodes]
    common = set.intersection(*({skills.key(name) for name in names} for names in spelled))
    if len(common) != 1:
        return ""
    return min(name for names in spelled for name in names if skills.key(name) in common)


def _named(texts: Sequence[str]) -> str:
    first, last = (text.strip(" .`") for text in (texts[0], texts[-1]))
    return clean_name(f"{first[:60].strip()}, then {last[:60].strip()}")


def _unheld_procedures(
    held: Iterable[HeldProcedure], procedures: Iterable[NewProcedure], analyser: Analyser
) -> list[NewProcedure]:
    """Leave out what a procedure of the vault does already; give each new one a free name."""
    known = sequences.Parts()
    names, used, proposals = set(), set(), set()
    for procedure, proposal in held:
        known.add(_steps(steps_of(procedure.prompt), analyser))
        names.add(normal_form("NFC", procedure.name).casefold())
        used.add(skills.key(procedure.skill_id))
        proposals.add(proposal)
    out = []
    for new in procedures:
        texts = steps_of(new.prompt)
        own = _steps(texts, analyser)
        seen = own in known
        if seen or new.proposal in proposals or (not own and new.name.casefold() in names):
            continue
        name = _free(new.name, texts, names)
        out.append(
            new._replace(name=name, skill="" if skills.key(new.skill) in used else new.skill)
        )
        known.add(own)
        names.add(name.casefold())
        used.add(skills.key(new.skill))
        proposals.add(new.proposal)
    return out


def _steps(texts: Iterable[str], analyser: Analyser) -> list[sequences.Step]:
    return [sequences.step(text, analyser) for text in texts]


def _free(name: str, texts: Sequence[str], taken: set[str]) -> str:
    """Return a name that no procedure has: the given one, one from the actions, or a number."""
    if name.casefold() not in taken:
        return name
    base = _named(texts) if texts else name
    count, free = 1, base
    while free.casefold() in taken:
        count += 1
        free = f"{base} ({count})"
    return free


def _merges(given: Given, analyser: Analyser, alike: Alike) -> list[Merge]:
    """Return the facts that say the same as a more certain, or as certain but newer one.

    A fact whose memId other files have too is left alone: it could not be named.
    """
    ranked = sorted(
        (
            held
            for held in given.facts
            if not held.archived and held.memory.mem_id not in given.shared
        ),
        key=lambda held: held.memory.path,
    )
    ranked.sort(key=lambda held: held.memory.modified, reverse=True)
    ranked.sort(key=lambda held: -held.fact.confidence)
    known = Said(alike)
    kept: dict[object, HeldFact] = {}
    out = []
    for held in ranked:
        said = _whole(held, analyser)
        if said is None:
            continue
        same = known.find(said)
        if same is None:
            known.add(said)
            kept[said.key] = held
        else:
            keeper = kept[same.key]
            ids = keeper.memory.mem_id, held.memory.mem_id
            out.append(Merge(proposal_id("merge", *ids), keeper, held))
    return out


def _whole(held: HeldFact, analyser: Analyser) -> Statement | None:
    """Return what a fact says as one statement."""
    return statement(unmarked(held.fact.text), analyser, _LEAST_OF_FACTS)


def _conflicts(
    facts: Sequence[HeldFact],
    fresh: Sequence[NewFact],
    clusters: Sequence[tuple[Statement, tuple[str, ...]]],
    analyser: Analyser,
) -> list[Conflict]:
    """Return the contradictions among facts, new ones too, and of new ones with single episodes.

    A fact and the one that it supersedes are no contradiction.
    """
    said: list[tuple[Statement, tuple[str, ...], bool]] = []
    replaced = {name for held in facts for name in held.supersedes}
    for held in sorted(facts, key=lambda held: (held.memory.mem_id, held.memory.path)):
        whole, mem_id = _whole(held, analyser), held.memory.mem_id
        if whole is not None and not held.archived and mem_id not in replaced:
            said.append((whole, (mem_id,), True))
    proposed = [
        (statement(unmarked(entry.text), analyser, _LEAST_OF_FACTS), entry.episodes)
        for entry in fresh
    ]
    said += [(whole, ids, True) for whole, ids in proposed if whole is not None]
    keys = {entry[0].key for entry in said}
    said += [(whole, ids, False) for whole, ids in clusters if whole.key not in keys]
    out = []
    for difference, sides in contradictions([entry[0] for entry in said], analyser):
        if any(said[place][2] for side in sides for place in side):
            texts = tuple(said[side[0]][0].text for side in sides)
            ids = ({name for place in side for name in said[place][1]} for side in sides)
            out.append(Conflict(texts, tuple(tuple(sorted(side)) for side in ids), difference))
    return sorted(out)


def _forgotten(unused: Iterable[Memory], now: datetime) -> list[Forgotten]:
    """Return what is unimportant, old and was never recalled."""
    oldest = now - timedelta(days=FORGOTTEN_AFTER_DAYS)
    out = []
    for memory in unused:
        importance = number(memory.metadata.get("importance"), IMPORTANCE)
        modified = clock.parse(memory.modified)
        if importance < UNIMPORTANT and modified is not None and modified < oldest:
            proposal = proposal_id("forget", memory.mem_id, memory.path)
            out.append(Forgotten(proposal, memory, importance))
    return sorted(out, key=lambda entry: entry.memory.path)
