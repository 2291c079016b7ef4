"""Tools for facts and procedures, and for recalling everything relevant to a situation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, cast

from memvault.arguments.parameters import Arg, CommandLineForm
from memvault.call import Call
from memvault.errors import UsageError
from memvault.model import CATEGORY, LEAST_IMPORTANCE, RATE, SOURCE
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.result_parts import (
    collect_hits,
    fields,
    list_result,
    outdated_code,
    with_code_lines,
)
from memvault.tools.core.shared_args import (
    CONTENT_ALIASES,
    CONTENT_ARG,
    MEMORY_ARG,
    QUERY_ALIASES,
    QUERY_ARG,
    Limit,
)
from memvault.tools.core.similar import similar_memories
from memvault.tools.core.vault_choice import count_accesses

if TYPE_CHECKING:
    from memvault import results
    from memvault.experience.acts import ActMatch

group = ToolGroup("experience", place=51)

_MIN_SUCCESS_RATE = 0.6
_MAX_FACTS = 5
_MAX_EXPERIENCES = 3
_MAX_ACTS = 5
_ProcedureName = Annotated[
    str,
    Arg(
        "The procedure's name, one line",
        positional=True,
        key="procedureName",
        json_aliases=("name", "title", "procedure"),
    ),
]


@group.tool(
    "fact store",
    examples=(
        'memvault fact store "Staging has 20 GB of disk" --confidence 0.8',
        'memvault fact store "Ana likes tea" --category people --source chat',
    ),
    view="""Stored {factId}  {filePath}
        *similar Similar facts; `memvault fact update` changes one:
           {similarity:.2f}  {factId}  {filePath}
              > {factText:each}""",
)
def store_fact(
    call: Call,
    fact: Annotated[str, CONTENT_ARG._replace(help="The fact, as a sentence")],
    category: Annotated[str, Arg("The fact's category")] = CATEGORY,
    confidence: Annotated[float, Arg("Confidence, from 0 to 1", minimum=0, maximum=1)] = 1.0,
    source: Annotated[str, Arg("The source of the knowledge")] = SOURCE,
) -> results.StoredFact:
    """Store a fact: a statement without its context.

    similar lists the closest earlier facts, so that you can update one instead.
    """
    from memvault.experience import facts, provenance, search

    memory = facts.add(call.store, fact, category, confidence, source)
    text = search.unquoted(fact)
    return {
        "factId": memory.mem_id,
        "title": memory.title,
        "filePath": memory.path,
        "similar": [
            {
                "factId": similar_fact.mem_id,
                "factText": provenance.text_of(similar_fact),
                "similarity": similarity,
                "filePath": similar_fact.path,
            }
            for similar_fact, similarity in similar_memories(call, text, memory.path, facts.TYPE)
        ],
    }


@group.tool(
    "fact recall",
    paged_keys=("facts",),
    read_only=True,
    examples=(
        'memvault fact recall "how much disk does staging have"',
        "memvault fact recall tea --category people",
    ),
    view="""*facts
        {factId}  distance {distance:.2f}  {strength}
           {category}, confidence {confidence:g}, from {source}, recalled {accessCount:time|times}
           superseded by {supersededBy}  expired {expired}  valid from {notYet}
           > {factText:each}""",
    reveals=True,
)
def recall_fact(
    call: Call,
    query: Annotated[str, QUERY_ARG._replace(help="Search query")],
    limit: Limit = _MAX_FACTS,
    category: Annotated[str | None, Arg("Only facts in this category")] = None,
) -> results.RecalledFacts:
    """Recall facts, best match first, and count the access.

    The access count is how often a fact was recalled on this machine by any tool, including
    this call. distance is 0 for the same meaning and 1 for nothing in common. Unlikely
    matches and archived facts are omitted; `memvault recall` finds both.
    """
    from memvault.experience import facts, search

    hits = collect_hits(call, facts.similar(call.engine, query, limit, category or ""))
    counts = count_accesses(call, [entry.memory.mem_id for entry in hits])
    facts_found = [facts.fact_of(entry.memory) for entry in hits]
    items: list[results.RecalledFact] = [
        {
            "factId": fact.fact_id,
            "factText": fact.text,
            "category": fact.category,
            "confidence": fact.confidence,
            "source": fact.source,
            "accessCount": counts.get(fact.fact_id, 0),
            "distance": search.distance(entry),
            "strength": entry.strength,
            **entry.validity.marks(),
        }
        for entry, fact in zip(hits, facts_found, strict=True)
    ]
    nothing = "No fact matches; search with `memvault recall --type fact` to see the closest"
    return cast("results.RecalledFacts", list_result("facts", items, nothing))


@group.tool(
    "fact update",
    destructive=True,
    examples=(
        'memvault fact update "Tea is served at four" --new-confidence 0.5',
        'memvault fact update "Tea is served at four" --new-text "Tea is served at five"',
    ),
    view="""Updated {factId}  {filePath}
        Previous revision: {previousRevision}""",
)
def update_fact(
    call: Call,
    fact_id: Annotated[
        str,
        MEMORY_ARG._replace(help="Memory id or its beginning, path, or exact title", key="factId"),
    ],
    new_text: Annotated[
        str | None, Arg("The fact's new text", text=True, json_aliases=CONTENT_ALIASES)
    ] = None,
    new_confidence: Annotated[
        float | None,
        Arg("New confidence, from 0 to 1", minimum=0, maximum=1, json_aliases=("confidence",)),
    ] = None,
) -> results.UpdatedFact:
    """Update a fact's text, its confidence, or both.

    The old text stays in the history. A title derived from the text changes too; memory id and
    file name do not.
    """
    from memvault.experience import facts

    if new_text is None and new_confidence is None:
        raise UsageError(
            "There is nothing to change", "pass `--new-text`, `--new-confidence` or both"
        )
    memory = call.resolve(fact_id)
    change = facts.change(call.store, memory, new_text, new_confidence)
    return {
        "factId": change.memory.mem_id,
        "filePath": change.memory.path,
        "previousRevision": change.previous_revision,
    }


@group.tool(
    "procedure store",
    destructive=True,
    examples=(
        'memvault procedure store roll_back "Stop, restore, start."',
        'memvault procedure store roll "One host at a time." --skill-id ops.deploy.roll',
    ),
    view="{isUpdate:Updated|Stored} {procedureId}  {filePath}",
)
def store_procedure(
    call: Call,
    procedure_name: _ProcedureName,
    procedure_prompt: Annotated[
        str,
        Arg(
            "The instructions",
            positional=True,
            key="procedurePrompt",
            text=True,
            json_aliases=("prompt", "instructions", "steps", *CONTENT_ALIASES),
        ),
    ],
    initial_success_rate: Annotated[
        float,
        Arg(
            "Success rate of a new procedure, from 0 to 1",
            minimum=0,
            maximum=1,
            json_aliases=("successRate",),
        ),
    ] = RATE,
    skill_id: Annotated[
        str | None, Arg("Its skill id, such as combat.melee.swords", json_aliases=("skill",))
    ] = None,
) -> results.StoredProcedure:
    """Store a procedure: instructions under a unique name.

    If the name exists, its prompt is updated; success rate and usage count do not change, and
    the old text stays in the history.
    """
    from memvault.experience import procedures

    stored, is_update = procedures.upsert(
        call.store,
        call.engine,
        procedure_name,
        procedure_prompt,
        initial_success_rate,
        skill_id or "",
    )
    result: results.StoredProcedure = {
        "procedureId": stored.memory.mem_id,
        "isUpdate": is_update,
        "filePath": stored.memory.path,
    }
    if stored.previous_revision:
        result["previousRevision"] = stored.previous_revision
    return result


@group.tool(
    "procedure recall",
    paged_keys=("procedures",),
    read_only=True,
    examples=(
        'memvault procedure recall "a deploy is due"',
        'memvault procedure recall "a deploy is due" --min-success-rate 0.1',
    ),
    view="""*procedures
        {name}  success rate {successRate:.3g}, used {usageCount:time|times}
           > {prompt:each}""",
    reveals=True,
)
def recall_procedure(
    call: Call,
    context: Annotated[
        str,
        Arg(
            "The task or the situation",
            positional=True,
            join_words=True,
            completes="search",
            json_aliases=("query", "task", "situation", *QUERY_ALIASES),
        ),
    ],
    min_success_rate: Annotated[
        float, Arg("Minimum success rate", minimum=0, maximum=1)
    ] = _MIN_SUCCESS_RATE,
) -> results.RecalledProcedures:
    """Recall the procedures for a task or situation, best success rate first.

    A procedure matches if its name shares a word with the context, or if
    `memvault recall --strict` would find it. Archived, replaced and expired procedures are
    omitted.
    """
    from memvault.experience import procedures

    matches, notes = procedures.recall_procedures(call.engine, context, min_success_rate)
    call.notes += notes
    count_accesses(call, [entry.procedure_id for entry in matches])
    items = [
        fields(entry, "name", "prompt", "success_rate", "usage_count", "procedure_id")
        for entry in matches
    ]
    nothing = f"No procedure with a success rate of {min_success_rate:g} or more matches"
    return cast("results.RecalledProcedures", list_result("procedures", items, nothing))


@group.tool(
    "procedure outcome",
    examples=(
        "memvault procedure outcome roll --success",
        "memvault procedure outcome roll --failure",
    ),
    view="success rate {successRate:.3g}, used {usageCount:time|times}",
)
def update_success_rate(
    call: Call,
    procedure_name: _ProcedureName,
    success: Annotated[
        bool,
        Arg(
            "Whether it succeeded: true (or success) or false (or failure)",
            flag="--success/--failure",
            synonyms={
                **dict.fromkeys(("success", "succeeded", "successful", "ok"), True),
                **dict.fromkeys(("failure", "failed", "fail", "error"), False),
            },
            cli_override=CommandLineForm("Whether it succeeded"),
        ),
    ],
) -> results.ProcedureOutcome:
    """Record a use of a procedure, and whether it succeeded.

    The success rate is a moving average in which the latest outcome has a weight of one tenth.
    """
    from memvault.experience import procedures

    counted = procedures.record_outcome(call.store, call.engine, procedure_name, success)
    return {"successRate": counted.success_rate, "usageCount": counted.usage_count}


def _with_code_lines(result: Result) -> Result:
    """Add lines about the code that the memories cite."""
    return {**result, "memories": [*map(with_code_lines, result.get("memories", ()))]}


@group.tool(
    "experience",
    paged_keys=(),
    read_only=True,
    examples=(
        'memvault experience "The deploy hangs"',
        "memvault experience --path src/billing/retry.py",
        'memvault experience --error "ModuleNotFoundError: No module named yaml"',
    ),
    view=Template(
        """*memories Named in:
        {title}  {memId}  {filePath}
           {code:each}
           > {line:each}

        *memoryContext[facts] Facts:
         - {text:first}
           > {text:rest}

        *memoryContext[experiences] Experiences:
         - {text:first}
           > {text:rest}

        *memoryContext[procedures] Procedures:
         - {text:first}
           > {text:rest}""",
        _with_code_lines,
    ),
    reveals=True,
)
def recall_memory(
    call: Call,
    observations: Annotated[
        list[str] | None,
        Arg(
            "What you see, hear or are asked now",
            positional=True,
            key="observations",
            json_aliases=("observation", "query", "context"),
        ),
    ] = None,
    path: Annotated[
        str | None, Arg("A file: recall memories that mention it or its folder", completes="file")
    ] = None,
    command: Annotated[
        str | None, Arg("A shell command: recall memories that mention its program and subcommand")
    ] = None,
    change: Annotated[
        str | None,
        Arg("Changed lines of code: recall memories that mention an identifier in them", text=True),
    ] = None,
    error: Annotated[
        str | None,
        Arg(
            "A command's output: recall memories with its error, ignoring numbers and paths",
            text=True,
        ),
    ] = None,
) -> results.RecalledExperience:
    """Recall everything about a situation: facts, experiences and procedures.

    With a path, a command or an error, memories lists the memories that mention it, each with the
    matching line, such as the fix for the same error in an earlier session. A path also matches
    memories that cite code that moved there, once a recall or `doctor` has found the move.

    Returns the content of at most 5 facts, at most 3 experiences with an importance of 0.3 or
    more, and the procedures with a success rate of 0.6 or more. Weak matches and replaced or
    expired facts are omitted. sources lists their memory ids in the same order.
    """
    from memvault.experience import acts, search
    from memvault.recall.answer import memory_reference

    if path and call.caller.may_see_paths and os.path.lexists(path):
        path = os.path.realpath(path)  # Memories mention it from the top of the repository.
    query = search.unquoted(" ".join(observations or ()))
    texts = {"path": path, "symbols": change, "command": command, "error": error}
    asked = {kind: text for kind, text in texts.items() if text and text.strip()}
    if not query.strip() and not asked:
        raise UsageError(
            "There are no observations",
            "describe what you see, hear or are asked, or pass `--path`, `--command` or `--error`",
        )
    result: results.RecalledExperience = {
        "memoryContext": {"facts": [], "experiences": [], "procedures": []},
        "sources": {"facts": [], "experiences": [], "procedures": []},
    }
    if asked:
        matches = [
            match
            for kind, text in asked.items()
            for match in acts.find(call.engine, cast("acts.Kind", kind), text, _MAX_ACTS)
        ]
        if path:
            matches = _with_moved_code(call, path, matches)
        cited = call.cited_code([match.memory.metadata for match in matches])
        result["memories"] = [
            {
                **memory_reference(match.memory),
                "etag": match.memory.etag,
                "line": match.line,
                "score": round(match.score, 2),
                **outdated_code(states),
            }
            for match, states in zip(matches, cited, strict=True)
        ]
    if query.strip():
        result |= _recall_situation(call, query)
    if not (result.get("memories") or any(result["sources"].values())):
        result["message"] = "Nothing is known about this yet"
    return result


def _with_moved_code(call: Call, path: str, matches: list[ActMatch]) -> list[ActMatch]:
    """Return matches for a path, and memories that cite code that has moved there."""
    from memvault.experience import acts
    from memvault.repository import citations

    moved = call.citations.moved_to(path) if call.citations is not None else []
    best = {match.memory.path: match for match in matches}
    for former in dict.fromkeys(citation.path for citation in moved):
        for match in acts.find(call.engine, "path", former, _MAX_ACTS):
            earlier = best.get(match.memory.path, match)
            is_moved = not set(moved).isdisjoint(citations.cited(match.memory.metadata))
            if is_moved and earlier.score <= match.score:
                best[match.memory.path] = match
    return sorted(best.values(), key=lambda match: -match.score)


def _recall_situation(call: Call, query: str) -> results.RecalledExperience:
    """Return the facts, experiences and procedures that fit a situation."""
    from memvault.experience import episodes, facts, procedures

    facts_found = collect_hits(
        call, facts.similar(call.engine, query, _MAX_FACTS, only_current=True)
    )
    similar = episodes.similar(call.engine, query, _MAX_EXPERIENCES, LEAST_IMPORTANCE)
    experiences = collect_hits(call, similar)
    matches, notes = procedures.recall_procedures(call.engine, query, _MIN_SUCCESS_RATE)
    call.notes += notes
    sources: results.ExperienceLists = {
        "facts": [entry.memory.mem_id for entry in facts_found],
        "experiences": [entry.memory.mem_id for entry in experiences],
        "procedures": [entry.procedure_id for entry in matches],
    }
    count_accesses(call, [mem_id for ids in sources.values() for mem_id in cast("list[str]", ids)])
    return {
        "memoryContext": {
            "facts": [facts.fact_of(entry.memory).text for entry in facts_found],
            "experiences": [
                episodes.summary(episodes.episode_of(entry.memory)) for entry in experiences
            ],
            "procedures": [entry.prompt for entry in matches],
        },
        "sources": sources,
    }
