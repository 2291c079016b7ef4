"""What episodes say, each statement once, with those that make it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memvault.consolidation.same_statements import Said
from memvault.consolidation.statements import Alike, Statement, sentences, statement
from memvault.index.analysis import Analyser
from memvault.memories.episodes import Episode

__all__ = ["clusters", "other_wordings"]

_CLAIM = re.compile(r"(?i)\b(?:is|are|must|should|needs?|uses?|never|always|not)\b")
"""What a context says that is no mere situation; in other languages its full stop tells."""


def _is_sentence(context: str) -> bool:
    """Say whether an entry of the context is a statement; most only name a situation."""
    return context.rstrip().endswith((".", "!", "。", "！")) or bool(_CLAIM.search(context))


def clusters(
    episodes: Iterable[Episode], analyser: Analyser, alike: Alike
) -> tuple[list[tuple[Statement, tuple[str, ...]]], dict[Statement, list[Statement]]]:
    """Return the statements of episodes with who makes them, and the wordings of each.

    Of those that say the same the wording that most episodes have leads, the
    shorter of two.
    """
    wordings: dict[Statement, set[str]] = {}
    for episode in episodes:
        for text in (episode.reflection, *filter(_is_sentence, episode.context)):
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


def other_wordings(leader: Statement, members: Iterable[Statement]) -> tuple[str, ...]:
    """Return one text for each wording that has other words than the leading one."""
    others = {said.key: said.text for said in members if said.key != leader.key}
    return tuple(others.values())
