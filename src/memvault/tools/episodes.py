"""The tools for episodes: what an agent experienced, told once and recalled by likeness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from memvault import model
from memvault.call import Call
from memvault.errors import UsageError
from memvault.model import LEAST_IMPORTANCE
from memvault.tools.core.registry import Arg, Group, shell
from memvault.tools.core.shapes import count_recalled

if TYPE_CHECKING:
    from memvault.memories.episodes import Episode

__all__ = [
    "get_episodes_with_skill",
    "get_recent_episodes",
    "recall_similar_experience",
    "shell_store",
    "store_episode",
]

group = Group("experience", "Experience: episodes, facts and procedures", place=50)

"""The importance that an episode must have at least to be recalled, where none is said."""
_CONTEXT = "The situation: where, when, with whom"
_ACTIONS = "What the agent did, in order"
_OUTCOMES = "The outcomes"
_SKILLS = "Ids of the skills that were used, such as combat.melee.swords"
_REFLECTION = "What the agent thinks of it; it may hold headings of its own"
_IMPORTANCE = "How much it matters, from 0 to 1"
_LONGEST_AGO = 100_000


class Outcome(TypedDict):
    """An outcome; it may hold any further keys."""

    type: Annotated[str, Arg("A word for it, such as success or action_error")]


@group.tool("store_episode", "episode store")
def store_episode(
    call: Call,
    context: Annotated[list[str] | None, Arg(_CONTEXT)] = None,
    actions: Annotated[list[str] | None, Arg(_ACTIONS)] = None,
    outcomes: Annotated[list[Outcome] | None, Arg(_OUTCOMES, open=True)] = None,
    skills_used: Annotated[list[str] | None, Arg(_SKILLS)] = None,
    reflection: Annotated[str, Arg(_REFLECTION, text=True)] = "",
    importance: Annotated[float, Arg(_IMPORTANCE, least=0, most=1)] = model.IMPORTANCE,
) -> dict[str, Any]:
    """Store an episode: the situation, what was done, and the outcome.

    success in the result says how the episode went: it has outcomes, and fewer
    than 30 % of them have the type action_error. It is stored either way; one
    that could not be stored has error in the result.
    """
    from memvault.memories import episodes

    episode = episodes.Story(
        context or (), actions or (), outcomes or (), skills_used or (), reflection, importance
    )
    memory = episodes.add(call.store, episode, str(call.address))
    return {
        "success": episodes.succeeded(episode.outcomes),
        "episodeId": memory.mem_id,
        "stored": True,
        "title": memory.title,
        "filePath": memory.path,
    }


@shell("store_episode")
def shell_store(
    context: Annotated[list[str] | None, Arg(f"{_CONTEXT}; repeatable", whole=True)] = None,
    actions: Annotated[
        list[str] | None,
        Arg("One thing the agent did; repeatable", flag="--action", alias="--actions", whole=True),
    ] = None,
    outcomes: Annotated[
        list[str] | None,
        Arg(
            "TYPE, TYPE:TEXT or a JSON object with a type; repeatable",
            flag="--outcome",
            alias="--outcomes",
            whole=True,
        ),
    ] = None,
    skills_used: Annotated[
        list[str] | None,
        Arg("Id of a skill that was used; repeatable", flag="--skill", alias="--skills-used"),
    ] = None,
    reflection: Annotated[str | None, Arg(_REFLECTION, text=True)] = None,
    importance: Annotated[
        float | None, Arg(f"{_IMPORTANCE} (default {model.IMPORTANCE:g})")
    ] = None,
) -> dict[str, Any]:
    """Take repeated options, and read each outcome."""
    given = {
        "context": context,
        "actions": actions,
        "outcomes": [_outcome(text) for text in outcomes] if outcomes else None,
        "skillsUsed": skills_used,
        "reflection": reflection,
        "importance": importance,
    }
    return {key: value for key, value in given.items() if value is not None}


def _outcome(text: str) -> dict[str, Any]:
    """Read one outcome as the command line spells it."""
    import json

    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"The outcome is not JSON: {error}", 'write {"type": "success"} or TYPE:TEXT'
            ) from error
        return dict(value)
    kind, colon, said = text.partition(":")
    if not kind.strip():
        raise UsageError(f"The outcome {text[:40]!r} has no type", "write TYPE or TYPE:TEXT")
    return {"type": kind.strip(), **({"text": said.strip()} if colon else {})}


@group.tool("recall_similar_experience", "episode recall", read_only=True)
def recall_similar_experience(
    call: Call,
    query: Annotated[str, Arg("What the situation is like", positional=True)],
    limit: Annotated[int, Arg("How many at most", least=1)] = 5,
    min_importance: Annotated[
        float, Arg("Leave out what matters less", least=0, most=1)
    ] = LEAST_IMPORTANCE,
) -> dict[str, Any]:
    """Recall episodes that are like a situation, the best first.

    distance is 0 for the same meaning and 1 for nothing in common. Archived
    episodes are left out; plain recall finds them.
    """
    from memvault.memories import episodes, experience_store

    answer = episodes.similar(call.engine, query, limit, min_importance)
    call.notes += answer.notes
    found = [
        {
            **_fields(episodes.episode_of(found.memory)),
            "distance": experience_store.distance(found),
        }
        for found in answer.found
    ]
    count_recalled(call, [entry["episodeId"] for entry in found])
    return _listed(found, "No episode is like this; other words or a lower importance may help")


@group.tool("get_recent_episodes", "episode recent", read_only=True)
def get_recent_episodes(
    call: Call,
    days: Annotated[int, Arg("How far back", least=0, most=_LONGEST_AGO)] = 7,
    limit: Annotated[int, Arg("How many at most", least=1)] = 10,
) -> dict[str, Any]:
    """List the episodes of the last days, newest first; archived ones are left out."""
    from datetime import timedelta

    from memvault import clock

    since = clock.iso(clock.now() - timedelta(days=days))
    found = _latest(call, limit, lambda record: record.created >= since)
    return _listed(found, f"There is no episode of the last {days} days")


@group.tool("get_episodes_with_skill", "episode with-skill", read_only=True)
def get_episodes_with_skill(
    call: Call,
    skill_id: Annotated[str, Arg("Id of the skill, whole", positional=True, key="skillId")],
    limit: Annotated[int, Arg("How many at most", least=1)] = 5,
) -> dict[str, Any]:
    """List the episodes in which a skill was used, newest first; archived ones are left out."""
    from memvault.memories import skills
    from memvault.memories.episodes import skills_of

    wanted = skills.key(skill_id)
    if not wanted:
        raise UsageError("The skillId is empty", "memvault skills categories shows what there is")

    def used(record: Any) -> bool:
        return wanted in map(skills.key, skills_of(record.metadata))

    return _listed(_latest(call, limit, used), f"No episode used the skill {skill_id!r}")


def _latest(call: Call, limit: int, passes: Any) -> list[dict[str, Any]]:
    from memvault.memories import episodes, experience_store

    memories = experience_store.memories_of(call.store, call.engine, episodes.TYPE, passes)
    first = zip(range(limit), memories, strict=False)
    return [_fields(episodes.episode_of(memory)) for _, memory in first]


def _listed(found: list[dict[str, Any]], nothing: str) -> dict[str, Any]:
    return {"episodes": found} if found else {"episodes": [], "message": nothing}


def _fields(episode: Episode) -> dict[str, Any]:
    """Return what is said of an episode."""
    from memvault.memories.episodes import summary

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
