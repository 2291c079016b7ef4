"""The context tool: builds one block for an agent's system prompt."""

from __future__ import annotations

from typing import Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.results import count_retrievals

group = ToolGroup("brain", place=21)

_DEFAULT_BUDGET = 2_000


@group.tool(
    "context",
    scope="read",
    core=True,
    examples=(
        'memvault context "I am about to change the database"',
        'memvault context "fix the deploy" --budget 500',
    ),
    view="{context:each}",
)
def context(
    call: Call,
    task: Annotated[
        str,
        Arg(
            "What is to be done; memories that fit it are recalled",
            positional=True,
            join_words=True,
        ),
    ] = "",
    budget: Annotated[
        int, Arg("Maximum tokens of the block, counted by the built-in tokenizer", minimum=0)
    ] = _DEFAULT_BUDGET,
) -> dict[str, Any]:
    """Write a block for a system prompt: memories, goals, due plans, inbox, recalled memories.

    Entries that exceed the budget are left out from the end and counted under cut.

    Sections come in this order of importance, dated and marked as data. Due plans become events
    in the inbox; no event is removed from it. If there is nothing to include, the block is empty.
    """
    from memvault.agents import prompt
    from memvault.agents.prompt import RECALLED, gather
    from memvault.index.embedding import tokenizer

    gathered = gather(call.store, call.address, lambda: call.inbox, lambda: call.engine, task)
    call.notes += gathered.notes
    block = prompt.build(gathered.sections, budget, tokenizer.count_tokens)
    shown = sum(len(section.entries) for section in block.kept if section.title == RECALLED)
    count_retrievals(call, (found.memory for found in gathered.recalled[:shown]))
    if block.cut and not block.text:
        call.notes.append(f"not even the first entry fits into {budget} tokens")
    return {
        "context": block.text,
        "tokens": block.tokens,
        "budget": budget,
        "parts": [
            {"section": section.title, "entries": [entry._asdict() for entry in section.entries]}
            for section in block.kept
        ],
        "cut": [{"section": cut.title, "leftOut": cut.left_out, "of": cut.of} for cut in block.cut],
        **({"shortened": block.shortened} if block.shortened else {}),
    }
