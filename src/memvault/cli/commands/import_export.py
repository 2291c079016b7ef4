"""The commands ``import`` and ``export``, which read and write outside the vault.

They are not tools, so neither ``call`` nor an MCP client can run them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.cli import output, run_editor
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import NotFound, Refused, UsageError
from memvault.exporters import formats
from memvault.tools.core.render import Template, shortened
from memvault.tools.core.result_parts import fields
from memvault.tools.core.shared_args import Expression, Since, TagFilter, TypeName, Until, filters

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.importers.formats import ImportFormat
    from memvault.importers.items import SkippedItem
    from memvault.importers.planning import ImportPlan, Included
    from memvault.importers.reader_process import SourceReader
    from memvault.importers.source import Source

_IMPORT_VIEW = """
    {heading}
       {new:new note|new notes}  {changed:changed note|changed notes}  {attachments:file|files} \
 {unchanged:unchanged note|unchanged notes}
       types: {typeCounts}
       contents: {contentCounts}
       not converted: {omittedCounts}
       files: {fileNames}
       at the vault's root: {rootNames}
       left out: {leftOutLines:each}
       to change: {toChange:each}
       not updated, because edited in the vault: {editedHere:each}
       to check: {notedLines:each}
       not read: {otherNames}
       not read: {problems:each}
    {next}

    *kinds
    {name:<14}  {title}
       {needs}  to {folder}"""


def _for_people(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with the additional values that the view of ``import`` prints."""
    if "kinds" in result:
        return dict(result)
    verb = "Imported from" if result["imported"] else "To import from"
    counts = (f"{entry['count']} {entry['name']}" for entry in result["types"])
    shown: dict[str, Any] = {
        **result,
        "heading": f"{verb} {result['source']} ({result['kind']}) to {result['folder'] or '.'}",
        "typeCounts": ", ".join(counts),
        "contentCounts": _counts(result.get("contents", ())),
        "omittedCounts": _counts(result.get("notConverted", ())),
        "fileNames": ", ".join(shortened(result.get("files", ()), 5)),
        "rootNames": ", ".join(result.get("rootFiles", ())),
        "leftOutLines": _left_out(result.get("leftOut", ())),
        "toChange": shortened(result.get("changedPaths", ())),
        "otherNames": _other_files(result),
        "editedHere": shortened(result.get("edited", ())),
        "notedLines": _reasons(result.get("noted", ())),
        "problems": _reasons(result.get("unreadable", ())),
    }
    for key in ("new", "changed", "unchanged", "attachments"):
        shown[key] = result[key] or None
    return shown


def _other_files(result: Mapping[str, Any]) -> str:
    """Return a line that lists the files that the format does not read; empty if there are none."""
    from memvault.importers import claims, detection
    from memvault.importers import formats as table

    names = result.get("otherFiles", ())
    if not names:
        return ""
    listed = ", ".join(shortened(names, 5))
    line = f"{len(names):,} {'file' if len(names) == 1 else 'files'}: {listed}"
    visible = (name for name in names if not claims.is_hidden(name))
    if not any(name.lower().endswith(claims.MARKDOWN) for name in visible):
        return line
    command = detection.import_command(Path(result["source"]), table.find_format(table.FOLDER))
    return f"{line}; run {command} to import markdown files"


def _reasons(entries: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the first entries as lines, each with the reason."""
    return shortened(": ".join(filter(None, (entry["what"], entry["reason"]))) for entry in entries)


def _counts(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the first counts as one line."""
    return ", ".join(shortened((f"{entry['name']} ({entry['count']:,})" for entry in entries), 8))


def _left_out(entries: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a line for each instruction file, and one line for all agent files."""
    from memvault.vault.names import names_folded

    of_agents, lines = [], []
    for entry in entries:
        if names_folded(entry["what"])[0] in ("agents", "spaces"):
            of_agents.append(entry)
        else:
            lines.append(f"{entry['what']}: {entry['reason']}")
    if of_agents:
        first = of_agents[0]
        suffix = f" and {len(of_agents) - 1} more" if len(of_agents) > 1 else ""
        lines.append(f"{first['what']}{suffix}: {first['reason']}")
    return lines


_VIEW = Template(_IMPORT_VIEW, _for_people)


@command(
    "import",
    (
        "memvault import ~/Notes",
        "memvault import ~/memory.jsonl --to team/graph --yes",
        "memvault import --kinds",
    ),
    view=_VIEW,
    group="moving",
)
def import_notes(
    options: GlobalOptions,
    source: Annotated[
        str, Arg("A file or folder, or a zip of either", positional=True, completes="file")
    ] = "",
    kind: Annotated[
        str, Arg("The format, if it is not recognized", flag="--from", metavar="KIND")
    ] = "",
    to: Annotated[str, Arg("The folder in the vault", metavar="FOLDER")] = "",
    yes: Annotated[bool, Arg("Import without asking")] = False,
    with_instructions: Annotated[
        bool, Arg("Also import instruction or settings files that programs read, such as AGENTS.md")
    ] = False,
    agents: Annotated[
        bool, Arg("Also import agent messages and state (agents/ and spaces/)")
    ] = False,
    kinds: Annotated[bool, Arg("List the import formats")] = False,
) -> dict[str, Any]:
    """Import notes, memories or sessions from other programs.

    It shows what would be imported and asks; without a terminal nothing changes unless
    `--yes` is given. Each note records its origin in its header, so a second import adds
    new notes, updates those changed in the source, and keeps those edited in the vault.
    `memvault undo` reverts the entire import.
    """
    from memvault.call import Call
    from memvault.importers import formats as table
    from memvault.importers.archives import open_source
    from memvault.importers.planning import Included
    from memvault.importers.reader_process import SourceReader
    from memvault.tools.core import invoke

    if kinds:
        keys = ("name", "title", "needs", "folder")
        return {"kinds": [fields(entry, *keys) for entry in table.FORMATS]}
    if not source:
        raise UsageError(
            "The source to import is missing",
            "pass a file or folder; `memvault import --kinds` lists the formats",
        )
    workspace = options.workspace()
    opened = open_source(source)
    reader = SourceReader(opened)
    try:
        import_format = (
            table.find_format(kind) if kind else _chosen_kind(reader, options.may_ask and not yes)
        )
        call = Call(workspace, options.caller(), tool="import")
        invoke.require_local_files(call, "this command")
        _require_apart(call, opened, import_format)
        included = Included(with_instructions, agents)
        return _import(options, call, reader, import_format, to, yes, included)
    finally:
        reader.close()
        opened.close()
        workspace.release()


def _chosen_kind(reader: SourceReader, may_ask: bool) -> ImportFormat:
    """Return a source's format; ask the user if the format covers under half of the notes.

    Raises:
        UsageError: the format is unknown, or the user did not choose one.
    """
    from memvault.importers import detection
    from memvault.importers import formats as table

    detected = reader.detect()
    if not detected.is_partial:
        return detected.format
    path = reader.source.path
    kinds = (detected.format, table.find_format(table.FOLDER))
    covers = f"covers only {detected.covered:,} of {detected.total:,} notes"
    looks_like = f"looks like {detection.title_in_sentence(detected.format)}, but that {covers}"
    if may_ask:
        choices = ("only these", "everything, as a folder of markdown")
        number = output.chooses([f"{path} {looks_like}."], "Import", choices)
        if number >= 0:
            return kinds[number]
    part, everything = (detection.import_command(path, kind) for kind in kinds)
    hint = f"run {part} for these notes, or {everything} for everything"
    raise UsageError(f"Nothing was imported: {path} {looks_like}", hint)


def _import(
    options: GlobalOptions,
    call: Call,
    reader: SourceReader,
    kind: ImportFormat,
    to: str,
    yes: bool,
    included: Included,
) -> dict[str, Any]:
    """Plan an import, ask for confirmation, and return its result."""
    from memvault.importers.applying import apply
    from memvault.importers.planning import plan
    from memvault.importers.state import vault_state
    from memvault.recall.filters import Filters
    from memvault.tools.core import invoke, render

    source = reader.source
    folder = _target_folder(call, to or kind.folder)
    records = call.engine.list_records(Filters())
    bar = output.ProgressBar(options.quiet)
    made = plan(
        reader.read(kind),
        kind.name,
        folder,
        vault_state(call.store, records, kind.name),
        lambda count: bar("reading", count, max(count, len(source.names))),
        included,
    )
    result = _result(made, source, made.unreadable)
    if not any((result["new"], result["changed"], result["attachments"])):
        problems = [*made.unreadable, *made.left_out]
        if problems and not made.notes and not made.attachments:
            reason = ": ".join(filter(None, problems[0]))
            raise UsageError(
                f"Nothing in {source.path} can be imported: {reason}",
                "export it again, or pass `--from KIND`",
                {key: result[key] for key in ("unreadable", "leftOut") if key in result},
            )
        return {**result, "next": "Nothing to import"}
    lines = ["".join(text for text, _ in line) for line in render.lines(_VIEW, result)]
    agreed = output.consent(yes, lines, "Import it?")
    if agreed is None:
        return {**result, "next": "Nothing was changed; pass `--yes` to import"}
    if not agreed:
        return {**result, "next": "Nothing was changed"}
    try:
        failed = apply(
            call.store, made, reader.read(kind), lambda *progress: bar("importing", *progress)
        )
    except BaseException:
        if call.change_set.files:
            output.notes(
                [f"Interrupted: {call.change_set.summary()}; run the import again to add the rest"]
            )
        raise
    if failed and not call.change_set.files:
        raise Refused(
            f"Nothing was imported: {failed[0].what}: {failed[0].reason}", "`memvault doctor`"
        )
    invoke.autocommit(call)
    result = _result(made, source, [*made.unreadable, *failed], written=True)
    result["changeId"] = call.change_set.change_id
    result["next"] = "to revert the import, run `memvault undo`"
    return run_editor.add_warnings(call, result)


@command(
    "export",
    (
        "memvault export ~/backup.zip",
        "memvault export ../decisions.jsonl --type architectural-decision",
        "memvault export ../pages --to site",
    ),
    view="""
    Exported {files:file|files} to {target} ({format})
       left out: {leftOut:each}""",
    group="moving",
)
def export(
    options: GlobalOptions,
    target: Annotated[str, Arg("The file or folder to write", positional=True, completes="file")],
    to: Annotated[
        str,
        Arg(
            "The format, if the file extension does not determine it",
            metavar="|".join(formats.NAMES),
        ),
    ] = "",
    memory_type: TypeName = None,
    tags: TagFilter = None,
    expression: Expression = None,
    since: Since = None,
    until: Until = None,
    force: Annotated[bool, Arg("Replace an existing target")] = False,
) -> dict[str, Any]:
    """Export the vault, or the memories that match filters, to a file or folder.

    A .jsonl file has one line per file; a .zip or a folder contains the files; a .md file contains
    all memories as one document. `memvault import` restores these files byte for byte, except from
    a .md file. `--to site` writes web pages, and needs the extra web. Hidden files are skipped.
    Nothing is replaced without `--force`.
    """
    from memvault.cli.commands.web import require_extra
    from memvault.exporters.files import ExportedFiles
    from memvault.files.target import absolute_path
    from memvault.recall.filters import Filters
    from memvault.vault import paths

    chosen_format = formats.chosen(target, to)
    with run_editor.open_call(options, tool="export") as (call, _):
        chosen = filters(memory_type, tags, since, until, expression)
        records = None if chosen == Filters() else call.engine.list_records(chosen)
        if records is not None and not records:
            raise NotFound(
                "No memories match the filters", "run `memvault list` to see all memories"
            )
        chosen_paths = None if records is None else [record.path for record in records]
        files = ExportedFiles(call.store, chosen_paths)
        target_path = absolute_path(target)
        paths.require_outside(call.root, target_path)
        with require_extra():
            written = chosen_format.write(files, target_path, force)
        result = {"target": str(target_path), "format": chosen_format.name, "files": written}
        return {**result, "leftOut": files.problems} if files.problems else result


def _require_apart(call: Call, source: Source, kind: ImportFormat) -> None:
    """Raise ``Refused`` if a source contains memories in this vault."""
    from memvault.vault import paths

    root, source_path = call.root.resolve(), source.path
    if kind.name == "mnemonics":  # It reads only a hidden folder.
        return
    if root.is_relative_to(source_path):
        what = "is the vault itself" if source_path == root else "contains the vault"
    elif source_path.is_relative_to(root):
        what = "is in the vault"
        note = source_path if source_path.is_file() else source_path / "memory.md"
        if not paths.is_memory(note.relative_to(root).as_posix(), call.settings.exclusions):
            return
    else:
        return
    raise Refused(
        f"{source_path} {what}, so its notes are already memories", "choose another source"
    )


def _target_folder(call: Call, to: str) -> str:
    """Return the folder to import into, relative to the vault.

    Raises:
        Refused: the folder is outside the vault, or a part of its path is a link or a file.
        UsageError: memories in it would not be indexed.
    """
    from memvault.vault import paths

    folder = paths.resolve_inside(call.root, to)
    folder = "" if folder == "." else folder
    if not paths.is_memory(f"{folder}/memory.md".removeprefix("/"), call.settings.exclusions):
        raise UsageError(
            f"Memories in {to} would not be indexed", "choose another folder with `--to`"
        )
    paths.require_plain_folders(call.root, folder)
    return folder


def _result(
    made: ImportPlan, source: Source, unreadable: list[SkippedItem], written: bool = False
) -> dict[str, Any]:
    """Return the result of a planned or completed import."""
    result = {
        "imported": written,
        "kind": made.kind,
        "source": str(source.path),
        "folder": made.folder,
        "new": len(made.paths("new")),
        "changed": len(made.paths("changed")),
        "unchanged": len(made.paths("unchanged")),
        "attachments": len(made.new_attachments),
        "types": _by_count(made.types),
    }
    lists = {
        "contents": _by_count(made.contents),
        "notConverted": _by_count(made.omitted),
        "changedPaths": made.paths("changed"),
        "edited": made.paths("edited"),
        "files": made.new_attachments,
        "rootFiles": made.root_files,
        "leftOut": [omission._asdict() for omission in made.left_out],
        "otherFiles": made.other_files,
        "noted": [warning._asdict() for warning in made.warnings],
    }
    result |= {key: listed for key, listed in lists.items() if listed}
    if unreadable:
        result["unreadable"] = [failure._asdict() for failure in unreadable]
    return result


def _by_count(counts: Counter[str]) -> list[dict[str, Any]]:
    """Return names with their counts, largest first."""
    return [{"name": name, "count": count} for name, count in counts.most_common()]
