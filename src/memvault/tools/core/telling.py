"""How much of each memory a result tells: whole, or in a line; all, or what a budget holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memvault.call import Call
from memvault.model import Memory

_AROUND = {"memories": [], "brief": [], "count": 10, "more": 10, "next": 10}
"""What a result says besides what it is about and what was found."""
_MARKS = {
    "supersededBy": "replaced by",
    "newer": "newer:",
    "expired": "ended",
    "notYet": "begins",
    "asOf": "as of",
}


class RenderedMemory(NamedTuple):
    """A memory as a result tells it whole, and what a line tells of it."""

    memory: Memory
    whole: dict[str, Any]
    best: str
    marks: Mapping[str, Any]
    strength: str = ""
    vault: str = ""

    @property
    def line(self) -> str:
        """The memory in a line."""
        from memvault.recall.lines import one_line

        marks = [f"{_MARKS[key]} {value}" for key, value in self.marks.items()]
        weak = [self.strength] * (self.strength == "weak")
        return one_line(self.memory, self.best, weak + marks, self.vault)


class ResultBudget(NamedTuple):
    """What a caller wants to be told: in lines only, and within so many tokens."""

    brief: bool
    budget: int

    @classmethod
    def of(cls, call: Call, brief: bool, budget: int | None) -> ResultBudget:
        """Make it of a tool's arguments; the settings' budget is for whoever pays for tokens."""
        usual = call.settings.mcp_budget if call.caller.budgeted else 0
        return cls(brief, usual if budget is None else budget)

    @property
    def has_lines(self) -> bool:
        """Whether a memory may be told in a line."""
        return self.brief or self.budget > 0

    def result(
        self,
        about: dict[str, Any],
        found: Sequence[RenderedMemory],
        offset: int,
        others: Sequence[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Return what was found, the best first, as a result that begins with ``about``.

        ``others``, where they were asked for, are told whole and count in the budget.
        """
        beside = {} if others is None else {"others": others}
        whole, lines = (0, [entry.line for entry in found]) if self.brief else (len(found), [])
        if self.budget:
            whole, lines = self._fitting({**about, **beside}, found)
        shown = whole + len(lines)
        more = len(found) - shown
        return {
            **about,
            "memories": [entry.whole for entry in found[:whole]],
            **({"brief": lines} if lines else {}),
            "count": shown,
            **({"more": more, "next": offset + shown} if more else {}),
            **beside,
        }

    def _fitting(
        self, about: dict[str, Any], found: Sequence[RenderedMemory]
    ) -> tuple[int, list[str]]:
        """Return how many are told whole, and the lines of those that come then."""
        from memvault import visible
        from memvault.index.embedding import tokens
        from memvault.recall.lines import split_budget

        def cost(value: Any) -> int:
            return tokens.count_tokens(f"{visible.safe_json(value)},")

        left = self.budget - cost({"success": True, **about, **_AROUND})
        costs = [] if self.brief else [cost(entry.whole) for entry in found]
        if costs and sum(costs) <= left:
            return len(found), []
        lines = [entry.line for entry in found]
        whole, shown = split_budget(left, costs, [cost(entry) for entry in lines])
        return whole, lines[whole:shown]
