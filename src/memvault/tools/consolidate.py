"""The tool that derives facts and procedures from repeated episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import Refused
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.result_parts import without_none

if TYPE_CHECKING:
    from memvault import results
    from memvault.consolidation.extractor import ExtractorOutput
    from memvault.consolidation.proposals import ConsolidationInput, Proposals, Quote
    from memvault.model import Memory

group = ToolGroup("experience", place=52)


def _with_statements(result: Result) -> Result:
    """Flatten contradictory statements to a list; note if there are proposals to apply."""
    statements = [
        {**statement, "text": f"but {statement['text']}" if index else statement["text"]}
        for entry in result.get("contradictions", ())
        for index, statement in enumerate(entry["statements"])
    ]
    procedures = [
        {
            **entry,
            "variations": [f"{each['text']}  {each['episodeId']}" for each in entry["varies"]],
        }
        if "varies" in entry
        else entry
        for entry in result["procedures"]
    ]
    proposed = any(result.get(key) for key in ("facts", "procedures", "merged", "forgotten"))
    does = "writes them" if proposed and not result["applied"] else None
    return {**result, "procedures": procedures, "statements": statements, "does": does}


@group.tool(
    "consolidate",
    takes_long=True,
    paged_keys=(),
    writes_if="apply",
    examples=("memvault consolidate", "memvault consolidate --days 30 --apply"),
    view=Template(
        """*facts {applied:Facts written|Facts}:
           {confidence:.2f}  {factText}
                 also: {wordings:each}
                 replaces {supersedes}
              {factId}  from {episodes}

        *procedures {applied:Procedures written|Procedures}:
           {successRate:.2f}  {name}
              {prompt:each}
                 sometimes: {variations:each}
              {procedureId}  from {episodes}

        *merged {applied:Merged|Facts with the same meaning}:
           stays  {keptText}  {keptId}
           archived  {archivedText}  {archivedId}

        *forgotten {applied:Archived|To archive}:
           {title}  importance {importance:g}  {memId}  {modified:day}

        *statements Contradictions:
           {text}  {memIds}

        *refused Invalid lines from the extractor:
           line {line}: {problem}  {text}

        Nothing has been written yet; `memvault consolidate --apply` {does}""",
        _with_statements,
    ),
)
def consolidate_memories(
    call: Call,
    days: Annotated[
        int, Arg("Number of days whose episodes are considered", minimum=1, maximum=1_000_000)
    ] = 7,
    apply: Annotated[bool, Arg("Write the proposals; otherwise nothing changes")] = False,
    extractor: Annotated[
        str | None,
        Arg(
            "A command, run without a shell, that reads episodes as JSON lines and prints "
            'lines such as {"fact": "...", "confidence": 0.8, "episodes": ["ID"]} or '
            '{"procedure": "name", "prompt": "...", "episodes": ["ID"]}'
        ),
    ] = None,
) -> results.ConsolidatedMemories:
    """Consolidate episodes: propose facts and procedures for repeated statements and actions.

    A statement in several episodes becomes a fact; a sequence of actions that mostly succeeded
    becomes a procedure. If the wording differs, three episodes are required. Proposals quote their
    episodes. A later episode supersedes the facts that it contradicts; other contradictions are
    only reported, once per subject. Facts with the same meaning are merged. Unimportant old
    memories that no tool on this machine has ever returned are archived: their files stay, and
    recall still finds them. With `--apply`, the result lists the
    memories written.
    """
    if not apply:
        inputs = _load_inputs(call, days)
        extracted = _run_extractor(call, extractor, inputs)
        return _result(_proposals(call, inputs, extracted), extracted, None)
    extracted = _run_extractor(call, extractor, _load_inputs(call, days)) if extractor else None
    if extracted and extracted.refused:
        refused_count = len(extracted.refused)
        raise Refused(
            f"Nothing was written: {refused_count} lines of the extractor's output are not "
            "valid proposals"
            if refused_count > 1
            else "Nothing was written: a line of the extractor's output is not a valid proposal",
            "omit `--apply` to see the valid and invalid lines",
            {"refused": _refused_lines(extracted)},
        )
    from memvault.consolidation.apply import apply_proposals, locked, prune_counts

    with locked(call.store, call.engine):
        inputs = _load_inputs(call, days)
        proposals = _proposals(call, inputs, extracted)
        writing = apply_proposals(call.store, call.engine, proposals, inputs.episodes)
    prune_counts(call.store, call.engine)
    call.notes += [f"Skipped: {message}" for message in writing.skipped]
    return _result(proposals, extracted, writing.written)


def _load_inputs(call: Call, days: int) -> ConsolidationInput:
    from memvault import clock
    from memvault.consolidation.apply import load_input

    return load_input(call.store, call.engine, days, clock.now())


def _run_extractor(
    call: Call, extractor: str | None, inputs: ConsolidationInput
) -> ExtractorOutput | None:
    if extractor is None:
        return None
    from memvault.consolidation.extractor import extract

    if not call.caller.may_run_programs:
        raise Refused(
            "This caller is not allowed to run programs such as an extractor",
            "use `memvault consolidate` in a shell, or omit extractor",
        )
    return extract(extractor, inputs.episodes, pause=call.sleep)


def _proposals(
    call: Call, inputs: ConsolidationInput, extracted: ExtractorOutput | None
) -> Proposals:
    from memvault.consolidation.apply import propose

    extra = (extracted.facts, extracted.procedures) if extracted else None
    proposals, note = propose(call.store, call.engine, inputs, extra)
    if note and note not in call.notes:
        call.notes.append(note)
    return proposals


def _result(
    proposals: Proposals, extracted: ExtractorOutput | None, written: Mapping[str, Memory] | None
) -> results.ConsolidatedMemories:
    """Return proposals as the tool's result; after applying, only the written ones."""
    from memvault.consolidation.proposals import origin
    from memvault.recall.answer import memory_reference

    is_empty = not any(proposals)
    if written is not None:
        proposals = proposals.only(written)
    result: results.ConsolidatedMemories = {
        "facts": _facts(proposals, written or {}),
        "procedures": _procedures(proposals, written or {}),
        "forgotten": [
            {
                "proposalId": entry.proposal,
                **memory_reference(entry.memory),
                "memoryType": entry.memory.memory_type,
                "importance": entry.importance,
                "modified": entry.memory.modified,
                "episodes": origin(entry.memory),
            }
            for entry in proposals.forgotten
        ],
        "applied": written is not None,
    }
    if merged := _merged(proposals):
        result["merged"] = merged
    if contradictions := _contradictions(proposals):
        result["contradictions"] = contradictions
    if extracted and extracted.refused:
        result["refused"] = _refused_lines(extracted)
    if is_empty:
        result["message"] = "Nothing new to propose or archive"
    return result


def _facts(proposals: Proposals, written: Mapping[str, Memory]) -> list[results.ProposedFact]:
    return [
        {
            "proposalId": entry.proposal,
            "factText": entry.text,
            "category": entry.category,
            "confidence": entry.confidence,
            "episodes": list(entry.episodes),
            **without_none(
                wordings=list(entry.wordings) or None,
                quotes=_quotes(entry.quotes),
                supersedes=list(entry.supersedes) or None,
            ),
            **_location(written.get(entry.proposal), "factId"),
        }
        for entry in proposals.facts
    ]


def _procedures(
    proposals: Proposals, written: Mapping[str, Memory]
) -> list[results.ProposedProcedure]:
    return [
        {
            "proposalId": entry.proposal,
            "name": entry.name,
            "prompt": entry.prompt,
            "successRate": entry.success_rate,
            "usageCount": len(entry.episodes),
            "episodes": list(entry.episodes),
            **without_none(
                skillId=entry.skill or None,
                quotes=_quotes(entry.quotes),
                varies=_quotes(entry.varies),
                reordered=list(entry.reordered) or None,
            ),
            **_location(written.get(entry.proposal), "procedureId"),
        }
        for entry in proposals.procedures
    ]


def _quotes(quotes: Sequence[Quote]) -> list[results.QuotedSentence] | None:
    """Return the sentences quoted by a proposal, or None."""
    return [{"text": quote.text, "episodeId": quote.episode} for quote in quotes] or None


def _location(memory: Memory | None, key: str) -> dict[Any, Any]:
    return {} if memory is None else {key: memory.mem_id, "filePath": memory.path}


def _merged(proposals: Proposals) -> list[results.MergedFacts]:
    from memvault.consolidation.proposals import origin
    from memvault.experience.provenance import text_of

    return [
        {
            "proposalId": entry.proposal,
            "keptId": entry.kept.mem_id,
            "keptText": text_of(entry.kept),
            "archivedId": entry.other.mem_id,
            "archivedText": text_of(entry.other),
            "episodes": sorted({*origin(entry.kept), *origin(entry.other)}),
        }
        for entry in proposals.merged
    ]


def _contradictions(proposals: Proposals) -> list[results.ContradictoryTexts]:
    return [
        {
            "difference": entry.difference,
            "statements": [
                {"text": text, "memIds": list(ids)}
                for text, ids in zip(entry.texts, entry.sources, strict=True)
            ],
            **without_none(current=entry.current or None),
        }
        for entry in proposals.contradictions
    ]


def _refused_lines(extracted: ExtractorOutput) -> list[results.RefusedLine]:
    return [
        {"line": entry.line, "text": entry.text, "problem": entry.problem}
        for entry in extracted.refused
    ]
