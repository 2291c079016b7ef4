"""The tool that checks a vault for problems and fixes those that it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.results import LISTED, Limit, Offset, page_info

if TYPE_CHECKING:
    from memvault.results import CheckedVault

group = ToolGroup("vault", place=102)


def _with_summary(found: Result) -> Result:
    """Add a summary with the number of findings of each severity."""
    counted = [f"{count} {kind}{'s' * (count != 1)}" for kind, count in found["counts"].items()]
    nothing = "Nothing of that is wrong" if "only" in found else "Nothing is wrong"
    counts_text = ", ".join(counted) if any(found["counts"].values()) else nothing
    memories = found["memories"]
    return {
        **found,
        "summary": f"{counts_text} in {memories} memor{'y' if memories == 1 else 'ies'}",
    }


@group.tool(
    "doctor",
    takes_long=True,
    pages=("findings",),
    destructive=True,
    own_scope="all",
    examples=("memvault doctor", "memvault doctor --fix", "memvault doctor --only id-shared"),
    fails_if="errors",
    view=Template(
        """*findings
        {severity}  {code}  {filePath}
           {message}
           --fix would {fix}

        *fixed Fixed:
           {code}  {filePath}  {fix}

        memvault undo {changeId} takes that back
        {summary}""",
        _with_summary,
    ),
)
def vault_doctor(
    call: Call,
    fix: Annotated[bool, Arg("Apply the fix of each finding")] = False,
    only: Annotated[list[str] | None, Arg("Only findings of these codes")] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> CheckedVault:
    """Check the vault for broken, duplicate, lost or left-over files, links and vectors.

    Each finding has a code, a severity, a file, and what --fix would do. All fixes of
    memories are one change that undo reverts; anything to be deleted permanently is only
    deleted if its code is named with only. The command exits with 1 if an error remains.
    """
    from memvault.doctor import doctor

    report = doctor.run_doctor(call, fix, only, limit, offset)
    return {**report, **page_info(report["total"], offset, len(report["findings"]))}
