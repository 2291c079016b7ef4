"""The tool that finds what is wrong in a vault, and puts it right where it can."""

from __future__ import annotations

from typing import Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.results import LISTED, Limit, Offset, page_info

group = ToolGroup("vault", place=102)


@group.tool("vault_doctor", "doctor", destructive=True, scope="all")
def vault_doctor(
    call: Call,
    fix: Annotated[bool, Arg("Do what each finding names as its fix")] = False,
    only: Annotated[list[str] | None, Arg("Only findings of these codes")] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Find what is wrong in the vault: broken, doubled, lost or left-over files, links, vectors.

    Each finding has a code, a severity, a file, and what --fix would do. Fixes of
    memories are one change that undo takes back; what would be deleted for good is so
    only where its code is named. The command ends with 1 where an error stands.
    """
    from memvault.doctor import doctor

    seen = doctor.run_doctor(call, fix, only, limit, offset)
    return {**seen, **page_info(seen["total"], offset, len(seen["findings"]))}
