"""The rules of consolidation: what repeats over episodes, and what may be put away.

Pure: frozen values in, proposals out, the same in whatever order episodes come.
A proposal is made only of episodes that were given, and is not made again once
a fact or a procedure holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from memvault import clock
from memvault.index.analysis import Analyser
from memvault.memories import action_sequences
from memvault.memories.contradictions import contradictions
from memvault.memories.episodes import Episode, number
from memvault.memories.proposals import (
    Conflict,
    Fact,
    Forgotten,
    Given,
    Merge,
    NewFact,
    NewProcedure,
    Procedure,
    Proposals,
    confidence_of,
    proposal_id,
    steps_of,
)
from memvault.memories.statements import Alike, Said, Statement, plain, sentences, statement
from memvault.model import Memory

__all__ = ["FORGOTTEN_AFTER_DAYS", "REPEATED", "UNIMPORTANT", "consider", "propose"]

REPEATED = 2
"""Different episodes that must say or do the same before it is proposed."""
MOSTLY = 0.5
"""A procedure's success rate must be above this."""
UNIMPORTANT = 0.3
"""What is less important than this may be forgotten."""
FORGOTTEN_AFTER_DAYS = 90


def propose(given: Given, analyser: Analyser, alike: Alike, now: datetime) -> Proposals:
    """Return what the built-in rules make of a vault."""
    clusters, wordings = _clusters(given.episodes, analyser, alike)
    facts = [
        NewFact(
            proposal_id("fact", said.key),
            said.text,
            confidence_of(len(ids)),
            ids,
            wordings=_other_wordings(said, wordings[said]),
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
    merged = _merges(given.facts, analyser, alike)
    gone = {merge.other.path for merge in merged}
    return Proposals(
        fresh,
        _unheld_procedures(given.procedures, procedures, analyser),
        merged,
        _conflicts(given.facts, fresh, clusters, analyser),
        _forgotten((memory for memory in given.unused if memory.path not in gone), now),
    )


def _clusters(
    episodes: Iterable[Episode], analyser: Analyser, alike: Alike
) -> tuple[list[tuple[Statement, tuple[str, ...]]], dict[Statement, list[Statement]]]:
    """Return the statements of episodes with who makes them, and the wordings of each.

    Of those that say the same the wording that most episodes have leads, the
    shorter of two.
    """
    wordings: dict[Statement, set[str]] = {}
    for episode in episodes:
        for text in (episode.reflection, *episode.context):
            for sentence in sentences(text):
                said = statement(sentence, analyser)
                if said is not None:
                    wordings.setdefault(said, set()).add(episode.episode_id)
    same_words: dict[object, set[str]] = {}
    for said, ids in wordings.items():
        same_words.setdefault(said.key, set()).update(ids)
    ordered = sorted(
        wordings,
        key=lambda said: (
            -len(same_words[said.key]),
            len(said.stems),
            said.key,
            -len(wordings[said]),
            said.text,
        ),
    )
    leaders: dict[Statement, set[str]] = {}
    members: dict[Statement, list[Statement]] = {}
    known = Said(alike)
    for said in ordered:
        leader = known.find(said)
        if leader is None:
            known.add(said)
            leader = said
        leaders.setdefault(leader, set()).update(wordings[said])
        members.setdefault(leader, []).append(said)
    return [(said, tuple(sorted(ids))) for said, ids in leaders.items()], members


def _other_wordings(leader: Statement, members: Iterable[Statement]) -> tuple[str, ...]:
    """Return one text for each wording that has other words than the leading one."""
    others = {said.key: said.text for said in members if said.key != leader.key}
    return tuple(others.values())


def _unheld_facts(
    held: Iterable[Fact], facts: Iterable[NewFact], analyser: Analyser, alike: Alike
) -> list[NewFact]:
    """Leave out new facts that a fact of the vault, archived ones too, or one before says."""
    known = Said(alike)
    verbatim = set()
    proposals = set()
    for fact in held:
        proposals.add(fact.proposal)
        for text in (fact.title, fact.text, *sentences(fact.text)):
            verbatim.add(_folded(text))
            said = statement(plain(text), analyser)
            if said is not None:
                known.add(said)
    out = []
    for new in facts:
        said = statement(plain(new.text), analyser)
        seen = new.proposal in proposals or _folded(new.text) in verbatim
        if not seen and (said is None or known.find(said) is None):
            out.append(new)
        proposals.add(new.proposal)
        verbatim.add(_folded(new.text))
        if said is not None:
            known.add(said)
    return out


def _folded(text: str) -> str:
    return " ".join(plain(text).casefold().split()).rstrip(" .!")


def _procedures(episodes: Sequence[Episode], analyser: Analyser) -> list[NewProcedure]:
    """Return the repeated sequences that mostly went well and are no part of a longer one."""
    found = []
    for steps in action_sequences.repeated(
        [episode.actions for episode in episodes], analyser, REPEATED
    ):
        inside = [episodes[place] for place in steps.episodes]
        rate = sum(episode.success for episode in inside) / len(inside)
        if rate > MOSTLY:
            found.append((steps, inside, rate))
    found.sort(key=lambda entry: (-len(entry[0].key), -len(entry[1]), entry[0].key))
    kept = action_sequences.Parts()
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
                tuple(sorted(episode.episode_id for episode in inside)),
                skill,
            )
        )
    return out


def _common_skill(episodes: Sequence[Episode]) -> str:
    """Return the one skill that all these episodes used, if there is just one."""
    common = set(episodes[0].skills_used).intersection(*(e.skills_used for e in episodes))
    return common.pop().strip() if len(common) == 1 else ""


def _named(texts: Sequence[str]) -> str:
    first, last = (text.strip(" .`") for text in (texts[0], texts[-1]))
    return f"{first[:60].strip()}, then {last[:60].strip()}"


def _unheld_procedures(
    held: Iterable[Procedure], procedures: Iterable[NewProcedure], analyser: Analyser
) -> list[NewProcedure]:
    """Leave out what a procedure of the vault does already; give each new one a free name."""
    known = action_sequences.Parts()
    names, skills, proposals = set(), set(), set()
    for procedure in held:
        known.add(_steps(procedure.steps, analyser))
        names.add(procedure.name.casefold())
        skills.add(procedure.skill)
        proposals.add(procedure.proposal)
    out = []
    for new in procedures:
        texts = steps_of(new.prompt)
        own = _steps(texts, analyser)
        seen = own in known
        if seen or new.proposal in proposals or (not own and new.name.casefold() in names):
            continue
        name = _free(new.name, texts, names)
        out.append(new._replace(name=name, skill="" if new.skill in skills else new.skill))
        known.add(own)
        names.add(name.casefold())
        skills.add(new.skill)
        proposals.add(new.proposal)
    return out


def _steps(texts: Iterable[str], analyser: Analyser) -> list[action_sequences.Step]:
    return [action_sequences.step(text, analyser) for text in texts]


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


def _merges(facts: Iterable[Fact], analyser: Analyser, alike: Alike) -> list[Merge]:
    """Return the facts that say the same as a more certain, or as certain but newer one."""
    ranked = sorted((fact for fact in facts if not fact.archived), key=lambda fact: fact.path)
    ranked.sort(key=lambda fact: fact.modified, reverse=True)
    ranked.sort(key=lambda fact: -fact.confidence)
    known = Said(alike)
    kept: dict[object, Fact] = {}
    out = []
    for fact in ranked:
        said = _whole(fact, analyser)
        if said is None:
            continue
        same = known.find(said)
        if same is None:
            known.add(said)
            kept[said.key] = fact
        else:
            keeper = kept[same.key]
            out.append(Merge(proposal_id("merge", keeper.mem_id, fact.mem_id), keeper, fact))
    return out


def _whole(fact: Fact, analyser: Analyser) -> Statement | None:
    """Return what a fact says as one statement."""
    return statement(plain(fact.text), analyser)


def _conflicts(
    facts: Sequence[Fact],
    fresh: Sequence[NewFact],
    clusters: Sequence[tuple[Statement, tuple[str, ...]]],
    analyser: Analyser,
) -> list[Conflict]:
    """Return the contradictions among facts, new ones too, and of new ones with single episodes.

    A fact and the one that it supersedes are no contradiction.
    """
    said: list[tuple[Statement, tuple[str, ...], bool]] = []
    replaced = {name for fact in facts for name in fact.supersedes}
    for fact in sorted(facts, key=lambda fact: fact.mem_id):
        whole = _whole(fact, analyser)
        if whole is not None and not fact.archived and fact.mem_id not in replaced:
            said.append((whole, (fact.mem_id,), True))
    proposed = [(statement(plain(entry.text), analyser), entry.episodes) for entry in fresh]
    said += [(whole, ids, True) for whole, ids in proposed if whole is not None]
    keys = {entry[0].key for entry in said}
    said += [(whole, ids, False) for whole, ids in clusters if whole.key not in keys]
    texts = [entry[0] for entry in said]
    out = []
    for first, second, difference in contradictions(texts, analyser):
        one, other = said[first], said[second]
        if one[2] or other[2]:
            out.append(Conflict((one[0].text, other[0].text), (one[1], other[1]), difference))
    return sorted(out)


def _forgotten(unused: Iterable[Memory], now: datetime) -> list[Forgotten]:
    """Return what is unimportant, old and was never recalled."""
    oldest = now - timedelta(days=FORGOTTEN_AFTER_DAYS)
    out = []
    for memory in unused:
        importance = number(memory.metadata.get("importance"), 0.5)
        modified = clock.parse(memory.modified)
        if importance < UNIMPORTANT and modified is not None and modified < oldest:
            out.append(Forgotten(proposal_id("forget", memory.mem_id), memory, importance))
    return sorted(out, key=lambda entry: entry.memory.path)
