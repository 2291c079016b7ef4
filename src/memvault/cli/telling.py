"""The command ``skill``: what an agent is told of memvault, on standard output or as a file."""

from __future__ import annotations

from pathlib import Path

from memvault.cli import output, showing
from memvault.cli.options import GlobalOptions
from memvault.errors import Refused, UsageError
from memvault.tools.core import skill

FORMS = {
    "agents": (skill.agents_page, "AGENTS.md"),
    "claude": (skill.claude_skill, f"{skill.NAME}/SKILL.md"),
    "text": (skill.plain_text, "memvault.txt"),
}
"""Each form's text, and the file that it is written to."""


def print_guide(options: GlobalOptions, form: str, out: str) -> None:
    """Print what an agent needs to know: which tool when, and how to use it.

    --as agents is a page such as AGENTS.md, claude a skill for Claude, text
    the same without markdown. --out DIR writes it there: AGENTS.md,
    memvault/SKILL.md or memvault.txt. A file that is there stays as it is.
    """
    if form not in FORMS:
        raise UsageError(f"There is no form {form!r}", f"the forms are {', '.join(FORMS)}")
    make, name = FORMS[form]
    if not out:
        output.text(make(), options.json)
        return
    from memvault.vault import atomic

    file = Path(out) / name
    if Path(out).exists() and not Path(out).is_dir():
        raise Refused(f"{out} is not a folder", "choose a folder")
    try:
        atomic.create(file, make().encode())
    except FileExistsError as error:
        raise Refused(
            f"{file} is there already", "move it away, or choose another folder"
        ) from error
    showing.print_result(options, "skill", {"success": True, "file": str(file)})
