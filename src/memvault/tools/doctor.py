"""Tools that report on the whole vault: its problems, items to review, and statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.results.vault import ReviewKind
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.result_parts import page_info
from memvault.tools.core.shared_args import LISTED, Limit, Offset

if TYPE_CHECKING:
    from memvault import results

group = ToolGroup("vault", place=102)


def _with_summary(result: Result) -> Result:
    """Add a summary with the number of findings of each severity."""
    counted = [f"{count} {kind}{'s' * (count != 1)}" for kind, count in result["counts"].items()]
    nothing = "No problems found" if "only" in result else "No problems"
    counts_text = ", ".join(counted) if any(result["counts"].values()) else nothing
    memories = result["memories"]
    return {
        **result,
        "summary": f"{counts_text} in {memories} memor{'y' if memories == 1 else 'ies'}",
    }


@group.tool(
    "doctor",
    takes_long=True,
    paged_keys=("findings",),
    destructive=True,
    own_scope="all",
    examples=("memvault doctor", "memvault doctor --fix", "memvault doctor --only id-shared"),
    fails_if="errors",
    messages=("findings.message", "findings.fix", "fixed.message", "fixed.fix"),
    view=Template(
        """*findings
        {severity}  {code}  {filePath}
           {message}
           `--fix` would {fix}

        *fixed Fixed:
           {code}  {filePath}  {fix}

        `memvault undo {changeId}` reverts that
        {summary}""",
        _with_summary,
    ),
)
def vault_doctor(
    call: Call,
    fix: Annotated[bool, Arg("Apply the fix for each finding")] = False,
    only: Annotated[list[str] | None, Arg("Only findings with these codes")] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.CheckedVault:
    """Check the vault for broken, duplicate, lost or leftover files, links and vectors.

    Each finding has a code, a severity, a file, and what `--fix` would do. All fixes to memories
    are one change that `memvault undo` reverts. Files are deleted permanently only if `--only`
    lists the finding's code. In a shell the exit code is 1 if an error remains.
    """
    from memvault.doctor import doctor

    report = doctor.run_doctor(call, fix, only, limit, offset)
    return {**report, **page_info(report["total"], offset, len(report["findings"]))}


@group.tool(
    "review",
    takes_long=True,
    paged_keys=("items",),
    read_only=True,
    examples=("memvault review", "memvault review --kind conflict", "memvault review --json"),
    view="""*items | Nothing to review
        {kind}  {title}  {filePath}  {other[filePath]}
           {reason}
           `--fix` would {fix}""",
    messages=("items.reason", "items.fix"),
)
def vault_review(
    call: Call,
    kind: Annotated[ReviewKind | None, Arg("Only items of this kind")] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.ReviewedVault:
    """List items to review: conflicts, secrets, duplicates, outdated memories, proposals.

    A conflict is a memory that git sync kept as two files. An unmerged memory was written in a git
    worktree that was then deleted; `memvault restore` copies it here. A duplicate has the same body
    as another memory, or most of its phrases. Outdated memories are superseded or expired. `code`
    means that the code that a memory cites has changed. Unused memories were given to agents ten
    times, and no call mentioned them. Proposals come from `memvault consolidate`, findings from
    `memvault doctor`.
    """
    from memvault.insights import review

    items = review.review_items(call, kind)
    shown = items[offset : offset + limit]
    return {
        "items": [item.described() for item in shown],
        **page_info(len(items), offset, len(shown)),
    }


_BAR = 16
"""Length of the longest bar in characters, so lines fit in a 40-column terminal."""


def _with_bars(result: Result) -> Result:
    """Add lines with bars, of equal scale within each list."""
    lines: dict[str, Any] = {key: _bars(result[key]) for key in ("types", "tags") if result[key]}
    active = [day for day in result["days"] if day["count"]]
    grown = [month for month in result["months"] if month["count"]]
    megabytes = f"{result['bytes'] / 1_000_000:.1f} MB"
    return {**result, **lines, "size": megabytes, "months": _bars(grown), "days": _bars(active)}


def _bars(counts: Sequence[Mapping[str, Any]]) -> list[str]:
    most = max((entry["count"] for entry in counts), default=0) or 1
    width = len(f"{most:,}")
    bars = ("▇" * round(_BAR * entry["count"] / most) or "▏" for entry in counts)
    return [
        f"{entry['count']:>{width},}  {bar:<{_BAR}}  {entry['name']}"
        for entry, bar in zip(counts, bars, strict=True)
    ]


@group.tool(
    "stats",
    takes_long=True,
    paged_keys=(),
    read_only=True,
    examples=("memvault stats", "memvault stats --json"),
    view=Template(
        """{memories:memory|memories}  {size}  {links:link|links}
           {unlinked} not linked  {superseded} superseded  {expired} expired  {stale} stale

        *types By type:
           {text}

        *tags By tag:
           {text}

        *months Memories at the end of the month:
           {text}

        *days Changes by tools:
           {text}

        *mostLinked Most linked:
           {count:>4}  {title}  {filePath}

        *mostRecalled Most recalled episodes, facts and procedures:
           {count:>4}  {title}  {filePath}

        *mostUnused Given to agents without being used:
           {count:>4}  {title}  {filePath}

        *oldest Stale, not changed for a year:
           {modified:day}  {title}  {filePath}""",
        _with_bars,
    ),
)
def vault_stats(call: Call) -> results.VaultStatistics:
    """Show vault statistics: growth, activity, types, tags, links, recalls, stale memories.

    A memory is stale if it has not changed for a year and was never recalled. Recalls are counted
    on this machine, and only for episodes, facts and procedures. A memory is used if a later call
    shows, changes, cites or quotes it.
    """
    from memvault.insights.statistics import statistics

    return statistics(call)
