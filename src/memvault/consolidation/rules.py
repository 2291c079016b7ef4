"""The rules of consolidation: find repetitions in episodes, and episodes to archive.

The rules are pure functions from immutable values to proposals, and do not depend on the order of
the episodes. A proposal is based only on the given episodes, and is not repeated once a fact or a
procedure contains it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, count

from memvault import clock
from memvault.consolidation.proposals import (
    ArchiveProposal,
    ConsolidationInput,
    Contradiction,
    FactMerge,
    NewFact,
    NewProcedure,
    Proposals,
    confidence_of,
    proposal_id,
    steps_of,
)
from memvault.consolidation.rewording import by_meaning
from memvault.consolidation.sequences import shared_sequences
from memvault.consolidation.statements import (
    Key,
    Statement,
    StatementCluster,
    clusters,
    sentences,
    signs,
    statement,
    unmarked,
    words,
)
from memvault.experience.episodes import Episode, number, texts
from memvault.experience.facts import fact_of
from memvault.experience.procedures import clean_name
from memvault.experience.provenance import text_of
from memvault.experience.search import is_archived
from memvault.experience.skill_tree import found_id, key
from memvault.index.embedding.text_clustering import Meaning
from memvault.index.text.analyzer import Analyzer
from memvault.model import IMPORTANCE, Memory
from memvault.named_tuple import NamedTuple
from memvault.vault.names import normalize

_MAX_ACTIONS = 100
"""The maximum number of actions per episode to compare; later ones are ignored."""

Step = tuple[tuple[str, ...], tuple[str, ...]]


class ActionSequence(NamedTuple):
    """A sequence of consecutive actions; ``episodes`` contains the positions of its episodes."""

    key: tuple[Step, ...]
    texts: tuple[str, ...]
    episodes: tuple[int, ...]


def normalize_action(action: str, analyzer: Analyzer) -> Step:
    """Return an action's words and signs, regardless of case, inflection and punctuation."""
    return words(action, analyzer) or (action.casefold(),), signs(action)


def frequent_sequences(
    episodes: Sequence[Sequence[str]], analyzer: Analyzer, min_episodes: int
) -> list[ActionSequence]:
    """Return the sequences of two or more actions that at least ``min_episodes`` episodes contain.

    Repetitions of a single action are omitted, and so are parts of longer sequences in the same
    episodes. Longer sequences are built from shorter ones, because a part of a repeated sequence is
    also repeated.
    """
    rows, keys, wordings = _number_steps(episodes, analyzer)
    sequences: list[ActionSequence] = []
    starts = [(row, start) for row, steps in enumerate(rows) for start in range(len(steps))]
    length = 1
    shorter: dict[tuple[int, ...], tuple[int, ...]] = {}
    while starts:
        length += 1
        groups: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for row, start in starts:
            if start + length <= len(rows[row]):
                groups[tuple(rows[row][start : start + length])].append((row, start))
        starts = []
        longer: dict[tuple[int, ...], tuple[int, ...]] = {}
        for part, occurrences in groups.items():
            containing = tuple(sorted({row for row, _ in occurrences}))
            if len(containing) < min_episodes:
                continue
            starts += occurrences
            if len(set(part)) > 1:
                longer[part] = containing
                for inner in (part[:-1], part[1:]):
                    if shorter.get(inner) == containing:
                        del shorter[inner]
        sequences += (
            ActionSequence(
                tuple(keys[n] for n in part), tuple(wordings[n] for n in part), containing
            )
            for part, containing in shorter.items()
        )
        shorter = longer
    return sequences


def _number_steps(
    episodes: Sequence[Sequence[str]], analyzer: Analyzer
) -> tuple[list[list[int]], list[Step], list[str]]:
    """Return each episode's actions as numbers, and the step and usual wording of each number."""
    wordings: dict[Step, Counter[str]] = defaultdict(Counter)
    numbers: dict[Step, int] = {}
    rows: list[list[int]] = []
    for actions in episodes:
        rows.append([])
        for text in actions[:_MAX_ACTIONS]:
            key = normalize_action(text, analyzer)
            wordings[key][" ".join(text.split())] += 1
            rows[-1].append(numbers.setdefault(key, len(numbers)))
    usual = [min(wordings[key], key=lambda text: (-wordings[key][text], text)) for key in numbers]
    return rows, list(numbers), usual


def parts(whole: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """Yield the contiguous parts of a sequence, limited to its first 100 steps."""
    steps = tuple(whole[:_MAX_ACTIONS])
    for start in range(len(steps)):
        for end in range(start + 1, len(steps) + 1):
            yield steps[start:end]


_OPPOSITES = (
    "pass/fail enabled/disabled allowed/forbidden on/off before/after true/false "
    "required/optional fast/slow safe/unsafe with/without more/less increases/decreases "
    "open/closed like/hate accepted/rejected online/offline public/private"
).split()
_VALUE = re.compile(
    r"^(?P<subject>.{4,}?)\s+(?:is|are|was|were|equals)\s+(?:(?:now|called|still|the|an?)\s+)*"
    r"(?P<value>\S+(?: \S+){0,2}?)[.!]*$|^(?P<name>[^=]{3,}?)\s*=\s*(?P<set>\S+?)[.!]*$"
)
_LOOKS_LIKE_A_VALUE = re.compile(r"[A-Z0-9`_./:@]")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_VERB = re.compile(r"\b(?:is|are|was|were|be|equals)\b|=")
_TWO_WORDS = re.compile(r"\W*\w+\W+\S+\s*")

OpposingGroups = tuple[tuple[int, ...], ...]
"""Two or more opposing sides, each a tuple of its statements' positions in the input."""


def contradictions(
    statements: Sequence[Statement], analyzer: Analyzer
) -> list[tuple[OpposingGroups, str]]:
    """Return the groups of statements that contradict each other, with the kind of difference.

    A difference in value is omitted if a number or a negation already covers all statements that
    give a value.
    """
    frames = [_frame(entry.text, analyzer) for entry in statements]
    numbers = _groups(((stems, turned), numbers) for stems, turned, numbers in frames)
    negations = _groups(((stems, numbers), turned) for stems, turned, numbers in frames)
    values = _groups(_value(entry.text, analyzer) for entry in statements)
    opposing = [(sides, "number") for sides in numbers]
    opposing += [(sides, "negation") for sides in negations]
    covered: dict[int, set[int]] = defaultdict(set)
    for group, (sides, _) in enumerate(opposing):
        for index in chain(*sides):
            covered[index].add(group)
    opposing += [
        (sides, "value")
        for sides in values
        if not set.intersection(*(covered[index] for index in chain(*sides)))
    ]
    return sorted(opposing)


def _groups(parts: Iterable[tuple[Hashable, Hashable] | None]) -> Iterator[OpposingGroups]:
    """Group entries by their first part; yield the positions in each group by second part.

    Groups with a single second part are omitted.
    """
    groups: dict[Hashable, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, part in enumerate(parts):
        if part is not None:
            groups[part[0]][part[1]].append(index)
    for sides in groups.values():
        if len(sides) > 1:
            yield tuple(map(tuple, sides.values()))


def _frame(text: str, analyzer: Analyzer) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Return a statement's stems, whether its meaning is negated, and its numbers.

    The stems exclude numbers and negations, except a number in the subject's name.
    """
    sides = _opposites(analyzer)
    subject = _VERB.search(text) or _TWO_WORDS.match(text)
    start = subject.end() if subject else 0
    numbers = tuple(_NUMBER.findall(text[start:]))
    stems: list[str] = []
    turned = False
    for stem in words(text[:start] + _NUMBER.sub(" # ", text[start:]), analyzer):
        if stem == "not":
            turned = not turned
        else:
            same, opposite = sides.get(stem, (stem, False))
            stems.append(same)
            turned = turned != opposite
    return (*stems, f"{len(numbers)} numbers"), turned, numbers


@cache
def _opposites(analyzer: Analyzer) -> dict[str, tuple[str, bool]]:
    """Map each word that has an opposite to the pair, and whether it is the pair's second word."""
    if analyzer.language != "english":
        return {}
    return {
        analyzer.sequence(word)[0]: (pair, opposite)
        for pair in _OPPOSITES
        for word, opposite in zip(pair.split("/"), (False, True), strict=True)
    }


def _value(text: str, analyzer: Analyzer) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the subject and the value that a statement assigns; None if it assigns none."""
    match = _VALUE.match(text)
    value_text = (match["value"] or match["set"]) if match else ""
    if match is None or not _LOOKS_LIKE_A_VALUE.search(value_text):
        return None
    subject, value = words(match["subject"] or match["name"], analyzer), words(value_text, analyzer)
    return (subject, value) if subject and "not" not in value else None


MIN_EPISODES = 2
"""Minimum number of different episodes that support a proposal."""
MIN_SUCCESS_RATE = 0.5
"""The limit that a procedure's success rate must exceed."""
MAX_ARCHIVED_IMPORTANCE = 0.3
"""The importance below which a memory may be archived."""
FORGOTTEN_AFTER_DAYS = 90
_MIN_FACT_WORDS = 2
"""The minimum number of content words in a fact; lower than ``LEAST_WORDS``."""


def propose(
    inputs: ConsolidationInput,
    analyzer: Analyzer,
    now: datetime,
    extracted: tuple[Iterable[NewFact], Iterable[NewProcedure]] | None = None,
    meaning: Meaning | None = None,
) -> Proposals:
    """Return the proposals for a vault, from the rules or an extractor.

    Facts and procedures that the vault already contains are omitted; merges, contradictions and
    archive proposals are added. With ``meaning``, paraphrased repetitions are proposed too.
    """
    statement_clusters = [] if extracted else clusters(inputs.episodes, analyzer)
    facts, procedures = extracted or (
        _facts(statement_clusters), _procedures(inputs.episodes, analyzer)
    )  # fmt: skip
    changes: list[Contradiction] = []
    if meaning and not extracted:
        facts, changes = by_meaning(inputs, statement_clusters, facts, analyzer, meaning)
        procedures = [*procedures, *_reworded_procedures(inputs.episodes, meaning)]
    fresh = _new_facts(inputs.facts, facts, analyzer)
    merged = _merges(inputs, analyzer)
    merged_paths = {merge.other.path for merge in merged}
    exact = _contradictions(inputs.facts, fresh, statement_clusters, analyzer)
    shown = [set(entry.texts) for entry in exact]
    changes = [entry for entry in changes if not any(map(set(entry.texts).issubset, shown))]
    return Proposals(
        fresh,
        _new_procedures(inputs.procedures, procedures, analyzer),
        merged,
        sorted([*exact, *changes]),
        _archivable((memory for memory in inputs.unused if memory.path not in merged_paths), now),
    )


def _facts(statement_clusters: Iterable[StatementCluster]) -> list[NewFact]:
    """Return the statements that several episodes contain, most episodes first."""
    facts = [
        NewFact(
            proposal_id("fact", made.key), made.text, confidence_of(len(ids)), ids, quotes=quotes
        )
        for made, ids, quotes in statement_clusters
        if len(ids) >= MIN_EPISODES
    ]
    return sorted(facts, key=lambda fact: (-len(fact.episodes), fact.text))


def _new_facts(
    held: Iterable[Memory], facts: Iterable[NewFact], analyzer: Analyzer
) -> list[NewFact]:
    """Return the facts that neither a stored (even archived) fact nor an earlier fact states."""
    facts = list(facts)
    if not facts:  # Stored facts need not be analyzed.
        return []
    known_keys: set[Key] = set()
    verbatim: set[str] = set()
    proposals: set[str] = set()
    for memory in held:
        proposals.add(str(memory.metadata.get("proposal")))
        text = text_of(memory)
        for sentence in (memory.title, text, *sentences(text)):
            verbatim.add(_normalized(sentence))
            if (claim := _fact_statement(sentence, analyzer)) is not None:
                known_keys.add(claim.key)
    fresh = []
    for new in facts:
        claim = _fact_statement(new.text, analyzer)
        seen = new.proposal in proposals or not verbatim.isdisjoint(
            _normalized(text) for text in (new.text, *new.wordings)
        )
        if not seen and (claim is None or claim.key not in known_keys):
            fresh.append(new)
        proposals.add(new.proposal)
        verbatim.add(_normalized(new.text))
        if claim is not None:
            known_keys.add(claim.key)
    return fresh


def _fact_statement(text: str, analyzer: Analyzer) -> Statement | None:
    return statement(unmarked(text), analyzer, _MIN_FACT_WORDS)


def _normalized(text: str) -> str:
    return " ".join(unmarked(text).casefold().split()).rstrip(" .!")


def _procedures(episodes: Sequence[Episode], analyzer: Analyzer) -> list[NewProcedure]:
    """Return the mostly successful repeated sequences that are not part of a longer one."""
    candidates = []
    for steps in frequent_sequences([each.actions for each in episodes], analyzer, MIN_EPISODES):
        containing = [episodes[index] for index in steps.episodes]
        rate = sum(episode.success for episode in containing) / len(containing)
        # duplicate files of an episode count once
        ids = {episode.episode_id for episode in containing}
        is_repeated = len(ids) >= MIN_EPISODES
        if is_repeated and rate > MIN_SUCCESS_RATE:
            candidates.append((steps, containing, rate))
    candidates.sort(key=lambda entry: (-len(entry[0].key), -len(entry[1]), entry[0].key))
    parts_of_selected: set[tuple[Step, ...]] = set()
    selected = []
    for steps, containing, rate in candidates:
        if steps.key in parts_of_selected:
            continue
        parts_of_selected.update(parts(steps.key))
        selected.append(_procedure(steps.key, steps.texts, containing, rate))
    return selected


def _procedure(
    key: Hashable, texts: Sequence[str], episodes: Sequence[Episode], rate: float
) -> NewProcedure:
    """Return a procedure with the given strings as its numbered steps."""
    skill = _common_skill(episodes)
    return NewProcedure(
        proposal_id("procedure", key),
        skill or _default_name(texts),
        "\n".join(f"{position}. {text}" for position, text in enumerate(texts, 1)),
        round(rate, 4),
        tuple(sorted({episode.episode_id for episode in episodes})),
        skill,
    )


def _reworded_procedures(episodes: Sequence[Episode], meaning: Meaning) -> list[NewProcedure]:
    """Return the mostly successful sequences that episodes share in different words."""
    procedures = []
    for shared in shared_sequences(episodes, meaning):
        rate = sum(episode.success for episode in shared.episodes) / len(shared.episodes)
        if rate > MIN_SUCCESS_RATE:
            new = _procedure(shared.texts, shared.texts, shared.episodes, rate)
            procedures.append(
                new._replace(quotes=shared.quotes, varies=shared.varies, reordered=shared.reordered)
            )
    return sorted(procedures, key=lambda new: (-len(new.episodes), new.prompt))


def _common_skill(episodes: Sequence[Episode]) -> str:
    """Return the skill that all these episodes used, if there is exactly one.

    Names that are not valid skill ids are omitted.
    """
    spelled = [list(filter(None, map(found_id, each.skills_used))) for each in episodes]
    common = set.intersection(*({key(name) for name in names} for names in spelled))
    if len(common) != 1:
        return ""
    return min(name for names in spelled for name in names if key(name) in common)


def _default_name(texts: Sequence[str]) -> str:
    first, last = (text.strip(" .`") for text in (texts[0], texts[-1]))
    return clean_name(f"{first[:60].strip()}, then {last[:60].strip()}")


def _new_procedures(
    held: Iterable[Memory], procedures: Iterable[NewProcedure], analyzer: Analyzer
) -> list[NewProcedure]:
    """Return the procedures that the vault does not contain yet, each with an unused name."""
    known_steps: set[tuple[Step, ...]] = set()
    whole: list[tuple[Step, ...]] = []
    names, used, proposals = set(), {""}, set()

    def steps(texts: Iterable[str]) -> tuple[Step, ...]:
        return tuple(normalize_action(text, analyzer) for text in texts)

    for memory in held:
        held_steps = steps(steps_of(text_of(memory)))
        known_steps.update(parts(held_steps))
        whole.append(held_steps)
        names.add(normalize("NFC", memory.title).casefold())
        used.add(key(found_id(memory.metadata.get("skill_id"))))
        proposals.add(str(memory.metadata.get("proposal")))
    fresh = []
    for new in procedures:
        texts = steps_of(new.prompt)
        new_steps = steps(texts)
        seen = new_steps in known_steps or new.proposal in proposals
        seen = seen or _is_reworded(new, steps(quote.text for quote in new.quotes), whole)
        whole.append(new_steps)
        if seen or (not new_steps and new.name.casefold() in names):
            continue
        name, skill = _unused_name(new.name, texts, names), key(new.skill)
        fresh.append(new._replace(name=name, skill="" if skill in used else new.skill))
        known_steps.update(parts(new_steps))
        names.add(name.casefold())
        used.add(skill)
        proposals.add(new.proposal)
    return fresh


def _is_reworded(
    new: NewProcedure, wordings: tuple[Step, ...], known_steps: Iterable[tuple[Step, ...]]
) -> bool:
    """Return whether a known procedure has half of a new procedure's steps, or is part of it."""
    held = set(wordings)
    needed = len(steps_of(new.prompt)) / 2
    return any(
        len(steps) > 1 and (covered == len(steps) or covered >= needed)
        for steps in known_steps
        if (covered := sum(step in held for step in steps))
    )


def _unused_name(name: str, texts: Sequence[str], taken: set[str]) -> str:
    """Return an unused name: the given name, a name from the actions, or a numbered name."""
    base = _default_name(texts) if texts else name
    names = chain([name, base], (f"{base} ({number})" for number in count(2)))
    return next(free for free in names if free.casefold() not in taken)


def _merges(inputs: ConsolidationInput, analyzer: Analyzer) -> list[FactMerge]:
    """Return the facts that repeat a more certain fact, or an equally certain and newer fact.

    A fact whose memId other files share is skipped, because its name is ambiguous.
    """
    ranked = [
        memory
        for memory in sorted(inputs.facts, key=lambda memory: memory.path)
        if not is_archived(memory.metadata) and memory.mem_id not in inputs.shared
    ]
    ranked.sort(key=lambda memory: (fact_of(memory).confidence, memory.modified), reverse=True)
    keepers: dict[Key, Memory] = {}
    merged = []
    for memory in ranked:
        claim = _fact_statement(text_of(memory), analyzer)
        if claim is None:
            continue
        keeper = keepers.setdefault(claim.key, memory)
        if keeper is not memory:
            proposal = proposal_id("merge", keeper.mem_id, memory.mem_id)
            merged.append(FactMerge(proposal, keeper, memory))
    return merged


def _contradictions(
    facts: Sequence[Memory],
    fresh: Iterable[NewFact],
    statement_clusters: Iterable[StatementCluster],
    analyzer: Analyzer,
) -> list[Contradiction]:
    """Return contradictions among stored and new facts, and between facts and single episodes.

    A fact does not count as a contradiction of the fact that it supersedes.
    """
    replaced = {name for memory in facts for name in texts(memory.metadata.get("supersedes"))}
    fact_texts: list[tuple[str, tuple[str, ...]]] = [
        (text_of(memory), (memory.mem_id,))
        for memory in sorted(facts, key=lambda memory: (memory.mem_id, memory.path))
        if not is_archived(memory.metadata) and memory.mem_id not in replaced
    ]
    fact_texts += [(new.text, new.episodes) for new in fresh]
    sources = [(_fact_statement(text, analyzer), ids) for text, ids in fact_texts]
    made = [(claim, ids) for claim, ids in sources if claim is not None]
    keys, facts_end = {claim.key for claim, _ in made}, len(made)
    made += [(claim, ids) for claim, ids, *_ in statement_clusters if claim.key not in keys]
    out = []
    for sides, difference in contradictions([claim for claim, _ in made], analyzer):
        if any(index < facts_end for side in sides for index in side):
            wordings = tuple(made[side[0]][0].text for side in sides)
            ids = ({name for index in side for name in made[index][1]} for side in sides)
            sorted_ids = tuple(tuple(sorted(side)) for side in ids)
            out.append(Contradiction(wordings, sorted_ids, difference))
    return sorted(out)


def _archivable(unused: Iterable[Memory], now: datetime) -> list[ArchiveProposal]:
    """Return proposals to archive unimportant, old memories that were never recalled."""
    oldest = now - timedelta(days=FORGOTTEN_AFTER_DAYS)
    proposals = []
    for memory in unused:
        importance = number(memory.metadata.get("importance"), IMPORTANCE)
        modified = clock.parse(memory.modified)
        if importance < MAX_ARCHIVED_IMPORTANCE and modified is not None and modified < oldest:
            proposal = proposal_id("forget", memory.mem_id, memory.path)
            proposals.append(ArchiveProposal(proposal, memory, importance))
    return sorted(proposals, key=lambda entry: entry.memory.path)
