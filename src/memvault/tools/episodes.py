"""Tools that store an agent's experiences as episodes, and recall similar ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from memvault import model
from memvault.arguments.binding import read_object
from memvault.arguments.parameters import Arg, CommandLineForm
from memvault.call import Call
from memvault.errors import UsageError
from memvault.model import LEAST_IMPORTANCE
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.result_parts import collect_hits, list_result, paginate
from memvault.tools.core.shared_args import QUERY_ALIASES, Limit, Offset
from memvault.tools.core.vault_choice import count_accesses

if TYPE_CHECKING:
    from collections.abc import Callable

    from memvault import results
    from memvault.index.protocol import MemoryRecord
    from memvault.model import Memory

group = ToolGroup("experience", "Experience: episodes, facts and procedures", place=50)

_CONTEXT = "The situation: where, when, with whom"
_MAX_DAYS = 100_000


_FAILURES = ("failed", "failure", "fail", "fails", "error")
"""Common types of failed outcomes other than action_error."""
_SUCCESSES = ("success", "succeeded", "successful", "successfully", "worked", "passed")
_NEGATIONS = {"not", "no", "never", "without", "t", "cannot"}
_FORM = "use TYPE or TYPE:TEXT, such as success or action_error:no disk"


class EpisodeOutcome(TypedDict):
    """An outcome; it may have any further keys."""

    type: Annotated[
        str,
        Arg(
            "A word such as success or action_error",
            json_aliases=("success", "result", "outcome", "status"),
            synonyms={**dict.fromkeys((*_FAILURES, "false"), "action_error"), "true": "success"},
        ),
    ]


def _outcome(text: str) -> dict[str, Any]:
    """Parse an outcome: ``TYPE``, ``TYPE:TEXT``, a JSON object, or words for success or failure."""
    if text.lstrip().startswith("{"):
        return read_object(text, "The outcome is", 'use {"type": "success"} or TYPE:TEXT')
    kind, colon, rest = text.partition(":")
    if not kind.strip():
        raise UsageError(f"The outcome {text[:40]!r} has no type", _FORM)
    if len(kind.split()) == 1:
        return {"type": kind.strip(), **({"text": rest.strip()} if colon else {})}
    terms = {*re.findall(r"\w+", text.lower())}
    fails, succeeds = bool(terms & {*_FAILURES}), bool(terms & {*_SUCCESSES})
    if fails == succeeds or terms & _NEGATIONS:
        raise UsageError(f"The outcome {text[:40]!r} has no type", _FORM)
    return {"type": "action_error" if fails else "success", "text": text.strip()}


@group.tool(
    "episode store",
    examples=(
        'memvault episode store --context Hang --action "Ran one test" --outcome success:ok',
        'memvault episode store --context "Deploy" --action push --outcome "action_error:no disk"',
    ),
    view="""
        Stored {episodeId}  {filePath}
           it {episodeSuccess:succeeded|did not succeed}""",
)
def store_episode(
    call: Call,
    context: Annotated[
        list[str] | None,
        Arg(_CONTEXT, keep_commas=True, cli_override=CommandLineForm(f"{_CONTEXT}; repeatable")),
    ] = None,
    actions: Annotated[
        list[str] | None,
        Arg(
            "The agent's actions, in order",
            flag="--action",
            option_alias="--actions",
            json_aliases=("action",),
            keep_commas=True,
            cli_override=CommandLineForm("An action by the agent; repeatable"),
        ),
    ] = None,
    outcomes: Annotated[
        list[EpisodeOutcome] | None,
        Arg(
            'The outcomes, such as {"type": "action_error", "text": "no disk"} or "success"',
            flag="--outcome",
            option_alias="--outcomes",
            json_aliases=("outcome",),
            extra_keys=True,
            cli_override=CommandLineForm(
                "TYPE, TYPE:TEXT or a JSON object with a type; repeatable", _outcome
            ),
        ),
    ] = None,
    skills_used: Annotated[
        list[str] | None,
        Arg(
            "Ids of the skills used, such as combat.melee.swords",
            flag="--skill",
            option_alias="--skills-used",
            json_aliases=("skills", "skill"),
            cli_override=CommandLineForm("Id of a skill used; repeatable"),
        ),
    ] = None,
    reflection: Annotated[str, Arg("The agent's reflection; may contain headings", text=True)] = "",
    importance: Annotated[
        float, Arg("Importance, from 0 to 1", minimum=0, maximum=1)
    ] = model.IMPORTANCE,
) -> results.StoredEpisode:
    """Store an episode: the situation, the actions and the outcomes.

    The episode counts as successful if it has outcomes and fewer than 30% have the type
    action_error.
    """
    from memvault.experience import episodes

    episode = episodes.EpisodeInput(
        context or (), actions or (), outcomes or (), skills_used or (), reflection, importance
    )
    memory = episodes.add(call.store, episode, str(call.address))
    return {
        "episodeId": memory.mem_id,
        "episodeSuccess": episodes.succeeded(episode.outcomes),
        "title": memory.title,
        "filePath": memory.path,
    }


_EPISODES = """*episodes
    {episodeId}  {metadata[timestamp]:second}  distance {distance:.2f}  {strength}
       {metadata[success]:succeeded|did not succeed}  importance {metadata[importance]:g}
       > {summary:each}"""


@group.tool(
    "episode recall",
    paged_keys=("episodes",),
    read_only=True,
    examples=(
        'memvault episode recall "the tests hang again"',
        'memvault episode recall "a deploy fails" --limit 2 --min-importance 0.5',
    ),
    view=_EPISODES,
    reveals=True,
)
def recall_similar_experience(
    call: Call,
    query: Annotated[
        str,
        Arg(
            "A description of the situation",
            positional=True,
            join_words=True,
            completes="search",
            json_aliases=("situation", "context", *QUERY_ALIASES),
        ),
    ],
    limit: Limit = 5,
    min_importance: Annotated[
        float, Arg("Minimum importance", minimum=0, maximum=1)
    ] = LEAST_IMPORTANCE,
) -> results.RecalledEpisodes:
    """Recall episodes similar to a situation, best match first.

    distance is 0 for the same meaning and 1 for nothing in common. Weak matches and
    archived episodes are omitted; `memvault recall` finds both.
    """
    from memvault.experience import episodes, search

    hits = collect_hits(call, episodes.similar(call.engine, query, limit, min_importance))
    count_accesses(call, [entry.memory.mem_id for entry in hits])
    items: list[results.EpisodeEntry] = [
        {
            **_fields(entry.memory),
            "distance": search.distance(entry),
            "strength": entry.strength,
            **entry.validity.marks(),
        }
        for entry in hits
    ]
    nothing = "No similar episode; try a lower importance, or search with `memvault recall`"
    return cast("results.RecalledEpisodes", list_result("episodes", items, nothing))


@group.tool(
    "episode recent",
    paged_keys=("episodes",),
    read_only=True,
    examples=("memvault episode recent", "memvault episode recent --days 1 --limit 5"),
    view=_EPISODES,
)
def get_recent_episodes(
    call: Call,
    days: Annotated[int, Arg("Number of days", minimum=0, maximum=_MAX_DAYS)] = 7,
    limit: Limit = 10,
    offset: Offset = 0,
) -> results.EpisodeListing:
    """List recent episodes, newest first, without archived ones."""
    from datetime import timedelta

    from memvault import clock

    since = clock.iso(clock.now() - timedelta(days=days))
    nothing = f"There are no episodes from the last {days} days"
    return _latest(call, lambda record: record.created >= since, limit, offset, nothing)


@group.tool(
    "episode with-skill",
    paged_keys=("episodes",),
    read_only=True,
    examples=(
        "memvault episode with-skill ops.deploy.roll",
        "memvault episode with-skill ops.deploy.roll --limit 1",
    ),
    view=_EPISODES,
)
def get_episodes_with_skill(
    call: Call,
    skill_id: Annotated[
        str,
        Arg("The skill's full id", positional=True, key="skillId", json_aliases=("skill", "id")),
    ],
    limit: Limit = 5,
    offset: Offset = 0,
) -> results.EpisodeListing:
    """List the episodes in which a skill was used, newest first, without archived ones."""
    from memvault.experience import skill_tree
    from memvault.experience.episodes import texts

    skill_key = skill_tree.key(skill_id)
    if not skill_key:
        raise UsageError(
            "The skill id is empty", "run `memvault skills categories` to list the skills"
        )

    def used(record: MemoryRecord) -> bool:
        return skill_key in map(skill_tree.key, texts(record.metadata.get("skills_used")))

    return _latest(call, used, limit, offset, f"No episode used the skill {skill_id!r}")


def _latest(
    call: Call, passes: Callable[[MemoryRecord], bool], limit: int, offset: int, nothing: str
) -> results.EpisodeListing:
    from memvault.experience import episodes, search

    records = search.records_of(call.engine, episodes.TYPE, passes)
    shown, paging = paginate(records, limit, offset, nothing)
    memories = search.readable(call.store, shown)
    return {"episodes": [_fields(memory) for memory in memories], **paging}


def _fields(memory: Memory) -> results.EpisodeEntry:
    """Return an episode as an entry in a result."""
    from memvault.experience.episodes import episode_of, summary

    episode = episode_of(memory)
    return {
        "episodeId": episode.episode_id,
        "summary": summary(episode),
        "metadata": {
            "title": episode.title,
            "filePath": episode.path,
            "agent": episode.agent,
            "timestamp": episode.created,
            "importance": episode.importance,
            "success": episode.success,
            "context": episode.context,
            "actions": episode.actions,
            "outcomes": episode.outcomes,
            "skillsUsed": episode.skills_used,
            "reflection": episode.reflection,
        },
    }
