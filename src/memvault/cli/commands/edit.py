"""The commands ``path``, ``edit``, ``open`` and ``new``, which work on a memory's file."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.cli import desktop, print_result
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.cli.run_editor import (
    EDITED_VIEW,
    add_warnings,
    draft,
    edit_memory,
    obsidian_url,
    open_call,
)
from memvault.errors import UsageError, exclusive, suggestion

MemoryOrVault = Annotated[
    str, Arg("Memory id, path or title; the vault if omitted", positional=True, completes="memory")
]


@command(
    "path",
    ('memvault path "Deploy notes"', "memvault path use-postgresql"),
    view="{path}",
    group="notes",
    reveals=True,
)
def path(options: GlobalOptions, memory: MemoryOrVault = "") -> dict[str, Any]:
    """Print the path of a memory's file, or of the vault if no memory is given.

    For use with other programs: `vim "$(memvault path deploy-notes)"`.
    """
    with open_call(options, memory) as (call, name):
        file = call.root / call.resolve(name, writes=True).path if name else call.root
        return add_warnings(call, {"path": str(file)})


@command(
    "edit",
    ('memvault edit "Deploy notes"', "EDITOR=nano memvault edit use-postgresql"),
    view=EDITED_VIEW,
    group="notes",
)
def edit(
    options: GlobalOptions,
    memory: Annotated[str, Arg("Memory id, path or title", positional=True, completes="memory")],
) -> dict[str, Any]:
    """Open a memory in your editor, and show what changed when you close it.

    The editor is VISUAL or EDITOR. Saved text takes effect immediately. When you close the editor,
    the edit is logged, and `memvault undo` reverts it.
    """
    with open_call(options, memory) as (call, name):
        return edit_memory(call, call.resolve(name, writes=True))


@command(
    "open",
    ('memvault open "Deploy notes" --print', "memvault open --with obsidian"),
    view=f"    {{address}}{EDITED_VIEW}",
    group="notes",
    reveals=True,
)
def open_memory(
    options: GlobalOptions,
    memory: MemoryOrVault = "",
    where: Annotated[str, Arg("The program to use", flag="--with", metavar="obsidian|editor")] = "",
    address: Annotated[
        bool, Arg("Print the Obsidian URL instead of opening it", flag="--print")
    ] = False,
) -> dict[str, Any] | None:
    """Open a memory in Obsidian if the vault is an Obsidian vault, else in your editor.

    `--print` prints the Obsidian URL and opens nothing. Without a memory it opens the
    vault.
    """
    exclusive({"--print": address, "--with": where == "editor"})
    if where not in ("", "obsidian", "editor"):
        hint = suggestion(where, ("obsidian", "editor"), "use obsidian or editor")
        raise UsageError(f"Unknown program {where!r}", hint)
    with open_call(options, memory) as (call, name):
        in_editor = where == "editor" or (not where and not (call.root / ".obsidian").is_dir())
        in_editor = in_editor and not address
        target = call.resolve(name, writes=in_editor) if name else None
        url = obsidian_url(call.root / target.path if target is not None else call.root)
        if address:
            return add_warnings(call, {"address": url})
        if in_editor:
            if target is None:
                raise UsageError("No memory was given", "pass one: `memvault open MEMORY`")
            return edit_memory(call, target)
        desktop.open_address(url, call.root)
        return None


@command(
    "new",
    (
        'memvault new "Disk full on db1" --type issue',
        'memvault new "Move to ARM" --template architectural-decision',
    ),
    group="notes",
)
def new(
    options: GlobalOptions,
    title: Annotated[str, Arg("The memory's title", positional=True)],
    template: Annotated[
        str, Arg("A file in the templates folder", metavar="NAME", completes="template")
    ] = "",
    memory_type: Annotated[
        str, Arg("The memory's type", flag="--type", completes="type", metavar="TYPE")
    ] = "",
    no_edit: Annotated[bool, Arg("Do not open it in the editor")] = False,
) -> None:
    """Create a memory from one of the vault's templates, and open it in your editor.

    Templates are the files in the vault's templates folder. {{title}}, {{date}} and {{time}} are
    filled in, as in Obsidian, including those in the header. The default template has the name of
    the type. If you do not change the template's text, no memory is created.
    """
    from memvault.memories import create, templates
    from memvault.tools.core import invoke, memory_uses, registry
    from memvault.tools.core.type_choice import choose_type
    from memvault.tools.recall import memory_remember, remembered
    from memvault.vault.private_folder import has_receipts

    with open_call(options, tool="new") as (call, _), contextlib.ExitStack() as drafts:
        chosen = choose_type(call, memory_type)
        name = create.clean_title(title)
        filled = templates.fill_template(call.root, template or chosen.name, title, bool(template))
        text = filled.body
        if options.may_ask and not no_edit:
            text = drafts.enter_context(draft(call.root, name, text, "remember TITLE"))
        kind = chosen.name or filled.memory_type or template
        memory = create.add(call.store, name, text, kind, {}, call.citations, filled)
        chosen.warn(call, memory.mem_id)
        made = remembered(call, memory, f"{name}\n{text}")
        tool = registry.find(memory_remember.__name__)
        if has_receipts(call.root):
            memory_uses.record(call, tool, {"title": name, "content": text}, made)
        invoke.autocommit(call)
        result = invoke.visible(call, tool, {"success": True, **add_warnings(call, made)})
        print_result.print_result(options, result, tool.view, writes=True)
