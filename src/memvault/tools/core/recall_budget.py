"""Render the results of a recall, and fit them into a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from memvault.call import Call
from memvault.model import Memory, is_document
from memvault.named_tuple import NamedTuple
from memvault.tools.core.result_parts import (
    as_of_field,
    item,
    outdated_code,
    unmerged_marks,
    with_code_lines,
    with_notice,
    without_none,
)

if TYPE_CHECKING:
    from memvault.recall.answer import RecallResult
    from memvault.results import CitedCode, RecalledEntry, RecalledMemories, RecalledMemory
    from memvault.settings.vault_settings import Settings


_COMMON_FIELDS = {"memories": [], "brief": [], "count": 10, "more": 10, "next": 10}
"""The other keys of a recall result, which count toward the budget."""
_MARK_LABELS = {
    "supersededBy": "superseded by",
    "newer": "newer:",
    "expired": "expired",
    "notYet": "valid from",
    "asOf": "as of",
    "unmergedBranch": "not merged, from",
    "otherVersionOn": "other version on",
}
"""Keys without a label are left out of the line."""


class RenderedMemory(NamedTuple):
    """A memory as a full entry in a result, and the data for its one-line form."""

    memory: Memory
    whole: RecalledMemory
    best: str
    marks: Mapping[str, Any]
    settings: Settings
    strength: str = ""
    vault: str = ""

    @property
    def line(self) -> str:
        """The memory as one line."""
        from memvault.recall.one_line import one_line

        marks = [
            f"{_MARK_LABELS[key]} {self.marks[key]}" for key in self.marks if key in _MARK_LABELS
        ]
        if cited := self.marks.get("cites"):
            from memvault.repository.citations import warning

            marks.append(warning(cited))
        weak = [self.strength] * (self.strength == "weak")
        return one_line(self.memory, self.best, self.settings.detector, weak + marks, self.vault)


def render_result(
    call: Call,
    entry: RecallResult,
    full: bool,
    explain: bool,
    as_of_text: str,
    cited: Sequence[CitedCode],
) -> RenderedMemory:
    """Return a result of a search as rendered; ``cited`` is the state of the code it cites."""
    score = round(entry.score, 4)
    marks: dict[Any, Any] = {
        **entry.validity.marks(),
        **unmerged_marks(call, entry.memory, bool(entry.branch)),
        **as_of_field(entry.sent),
        **outdated_code(cited),
    }
    why = None
    if explain:
        why = {"chance": entry.probability, "score": score, **entry.why}
    whole: RecalledMemory = {
        **recalled_entry(entry.memory, score, entry, entry.snippet, full, entry.vault),
        **_position(entry),
        **marks,
        **without_none(why=why),
        **as_of_field(as_of_text if entry.is_earlier else ""),
    }
    return RenderedMemory(
        entry.memory, whole, entry.line, marks, call.settings, entry.strength, entry.vault
    )


def _position(entry: RecallResult) -> dict[Any, Any]:
    """Return the line of the snippet in its file, or its place in a document."""
    if entry.is_earlier:
        return {}
    if is_document(entry.memory.path):
        from memvault.recall.document_place import place_at

        return {"place": place_at(entry.memory, entry.line_number)}
    return {} if entry.sent else {"line": entry.line_number}


def recalled_entry(
    memory: Memory, score: float, result: RecallResult | None, snippet: str, full: bool, vault: str
) -> RecalledMemory:
    """Return a memory as an entry of a recall's result."""
    return {
        **item(memory),
        **without_none(vault=vault or None),
        "score": score,
        **without_none(
            strength=result and result.strength, probability=result and result.probability
        ),
        "snippet": snippet,
        **without_none(content=memory.body if full else None, etag=memory.etag if full else None),
    }


class ResultBudget(NamedTuple):
    """The size limits of a result: whether it has only lines, and its token budget (0: none)."""

    brief: bool
    budget: int

    @classmethod
    def of(cls, call: Call, brief: bool, budget: int | None) -> ResultBudget:
        """Create the limits from a tool's arguments; the default budget is the call's."""
        return cls(brief, call.budget if budget is None else budget)

    @property
    def has_lines(self) -> bool:
        """Whether the result may contain memories as lines."""
        return self.brief or self.budget > 0

    def result(
        self,
        about: Mapping[str, Any],
        rendered: Sequence[RenderedMemory],
        offset: int,
        others: Sequence[RecalledEntry] | None = None,
    ) -> RecalledMemories:
        """Build a result from ``about`` and the found memories, which are ordered best first.

        ``others``, if requested, count toward the budget, and are shortened to half of the budget.
        """
        extra: dict[str, Any] = {} if others is None else {"others": others}
        if others and self.budget:
            from memvault.tools.core import budget

            extra = budget.shortened(extra, self.budget // 2)
        whole, lines = (
            (0, [entry.line for entry in rendered]) if self.brief else (len(rendered), [])
        )
        if self.budget:
            whole, lines = self._fitting({**about, **extra}, rendered)
        shown = whole + len(lines)
        omitted_count = len(rendered) - shown
        result = {
            **about,
            "memories": [entry.whole for entry in rendered[:whole]],
            **({"brief": lines} if lines else {}),
            "count": shown,
            **({"more": omitted_count, "next": offset + shown} if omitted_count else {}),
            **extra,
        }
        return cast("RecalledMemories", result)

    def _fitting(
        self, about: Mapping[str, Any], rendered: Sequence[RenderedMemory]
    ) -> tuple[int, list[str]]:
        """Return how many memories fit in full, and the remaining ones as lines."""
        from memvault.recall.one_line import split_budget
        from memvault.tools.core import budget

        def cost(value: Any) -> int:
            return budget.cost(value, self.budget) + 1  # Add one token for the comma.

        remaining = self.budget - cost({"success": True, **about, **_COMMON_FIELDS})
        costs = [] if self.brief else [cost(entry.whole) for entry in rendered]
        if costs and sum(costs) <= remaining:
            return len(rendered), []
        lines = [entry.line for entry in rendered]
        whole, shown = split_budget(remaining, costs, [cost(entry) for entry in lines])
        return whole, lines[whole:shown]


def recall_for_people(result: Mapping[str, Any]) -> dict[str, Any]:
    """Add the keys that the terminal view of a recall shows.

    ``place`` is ``PATH:LINE``, as editors accept it, and ``explanation`` has a table's lines.
    """
    memories = []
    for entry in map(with_code_lines, result["memories"]):
        added: dict[str, Any] = {}
        if "line" in entry:
            added["place"] = f"{entry['filePath']}:{entry['line']}"
        if "content" in entry:
            added["snippet"] = ""
        if "why" in entry:
            added["explanation"] = _explanation(entry["why"])
        memories.append({**entry, **added})
    return {**with_notice(result), "memories": memories}


def _explanation(why: Mapping[str, Any]) -> list[str]:
    """Return the lines that explain a score: its parts, largest first, and the other values."""
    parts = sorted(why.get("parts", {}).items(), key=lambda item: -abs(item[1]))
    width = max((len(name) for name, _ in parts), default=0)
    lines = [f"{name:<{width}}  {value:>7.4f}" for name, value in parts if value]
    total = [f"{'score':<{width}}  {why['score']:>7.4f}"] if "score" in why else []
    rest = {key: value for key, value in why.items() if key not in ("parts", "score")}
    listed = {key: value for key, value in rest.items() if isinstance(value, Mapping)}
    numbers = [f"{key} {value}" for key, value in rest.items() if key not in listed]
    return [*lines, *total, ", ".join(numbers), *map(_listed, listed, listed.values())]


def _listed(name: str, values: Mapping[str, Any]) -> str:
    return f"{name}: {', '.join(f'{key} {value}' for key, value in values.items()) or 'none'}"
