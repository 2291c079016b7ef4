"""Set up an integration: plan the changes to files, show them as a diff, and write them.

Planning writes nothing.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path

from memvault.errors import Conflict, Refused, UsageError, suggestion
from memvault.files import atomic, plain_files
from memvault.integrations import json_edit, marked_blocks
from memvault.integrations.integration import (
    OURS,
    SERVER,
    TOML,
    Integration,
    MarkedBlock,
    OwnedFile,
    SettingsEdit,
    SettingsFile,
    SetupContext,
)
from memvault.integrations.programs import PROGRAMS
from memvault.named_tuple import NamedTuple
from memvault.secrets.detector import masked

_FOLDERS = {"agents", "plugins", "rules", *(program.folder for program in PROGRAMS.values())}
"""Folders to remove if setup leaves them empty."""
_HINT = "correct or remove it; nothing was changed"


class FileEdit(NamedTuple):
    """A file to create, change or delete; ``before`` or ``after`` is None if there is no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def action(self) -> str:
        """The operation on the file: ``create``, ``change`` or ``delete``."""
        if self.before is None:
            return "create"
        return "change" if self.after is not None else "delete"


def find_integration(name: str) -> Integration:
    """Return the integration with a program.

    Raises:
        UsageError: there is no integration with the program.
    """
    if name not in PROGRAMS:
        raise UsageError(
            f"memvault has no integration with {name!r}",
            suggestion(name, PROGRAMS, f"choose {', '.join(PROGRAMS)}"),
        )
    return PROGRAMS[name]


def plan_edits(
    files: Sequence[SettingsFile], context: SetupContext, remove: bool
) -> list[FileEdit]:
    """Return the changes that set up a program, or undo its setup if ``remove`` is set.

    Raises:
        Refused: a file cannot be read or parsed, or was not written by memvault.
    """
    changes = []
    shared = _shared_files(files, context) if remove else ()
    for file in files:
        path = _resolve(file.path, context)
        before = _read(path)
        if remove and path in shared:
            continue
        try:
            after = without(before, file) if remove else with_parts(before, file)
        except (json_edit.JsonSyntaxError, marked_blocks.UnbalancedMarkers) as error:
            raise Refused(f"{file.path}: {error}", _HINT) from error
        except RecursionError as error:
            raise Refused(f"{file.path} is nested too deeply", _HINT) from error
        if after != before:
            changes.append(FileEdit(path, before, after))
    return changes


def _shared_files(files: Sequence[SettingsFile], context: SetupContext) -> set[Path]:
    """Return the files that another program also uses, if it is set up there.

    Links are resolved.
    """
    own_paths = {_resolve(file.path, context) for file in files}
    shared: set[Path] = set()
    for program in PROGRAMS.values():
        # A program whose files are unreadable was not set up.
        with contextlib.suppress(Refused):
            theirs = {_resolve(file.path, context) for file in program.files(context)}
            if any(SERVER in (_read(path) or "") for path in theirs - own_paths):
                shared |= theirs & own_paths
    return shared


def with_parts(text: str | None, file: SettingsFile) -> str:
    """Return the text of a file with all its parts inserted.

    Raises:
        JsonSyntaxError: the text is not valid JSON.
        UnbalancedMarkers: only one of the markers of a block is present.
        Refused: something else is in the place of a part.
    """
    original = text
    for unwanted in file.unwanted:
        if text is not None and text.strip():
            text = json_edit.remove_entry(text, unwanted, dict(file.base))
    for part in file.parts:
        try:
            text = _insert_part(text, part, file)
        except json_edit.JsonSyntaxError:
            _insert_part(original, part, file)  # Report the line in the unedited file.
            raise
    return text or ""


def without(text: str | None, file: SettingsFile) -> str | None:
    """Return the text of a file without its parts, or None if nothing else remains.

    Raises:
        JsonSyntaxError: the text is not valid JSON.
        UnbalancedMarkers: only one of the markers of a block is present.
    """
    for part in reversed(file.parts):
        if text is None:
            return None
        if isinstance(part, OwnedFile):
            text = None if OURS in text else text
        elif isinstance(part, MarkedBlock):
            text = marked_blocks.remove_block(text, part.marks)
        else:
            text = json_edit.remove_entry(text, part, dict(file.base))
    return text


def write(changes: Sequence[FileEdit]) -> None:
    """Write the planned changes, unless a file has changed since they were planned.

    Raises:
        Refused: a file has changed. All files are checked before the first one is written, and each
            is checked again directly before it is written, so some files may already have been
            written.
        StorageError: the file system failed; files already written are not rolled back.
    """
    for change in changes:
        _check_unchanged(change)
    for change in changes:
        if change.after is None:
            _check_unchanged(change)
            with atomic.map_os_errors(change.path):
                change.path.unlink(missing_ok=True)
            _remove_empty_folders(change.path)
        elif change.before is None:
            try:
                atomic.create(change.path, change.after.encode())
            except FileExistsError as error:
                raise Refused(
                    f"{change.path} was created after the preview", "run `memvault setup` again"
                ) from error
        else:
            try:
                atomic.replace_unchanged(change.path, change.before.encode(), change.after.encode())
            except Conflict as error:
                raise _just_changed(change) from error


def _check_unchanged(change: FileEdit) -> None:
    if _read(change.path) != change.before:
        raise _just_changed(change)


def _just_changed(change: FileEdit) -> Refused:
    return Refused(f"{change.path} was changed after the preview", "run `memvault setup` again")


def _remove_empty_folders(deleted: Path) -> None:
    """Delete the folders that a deleted file leaves empty, if they belong to programs."""
    with contextlib.suppress(OSError):  # The folder is not empty.
        for folder in deleted.parents[:2]:
            if folder.name not in _FOLDERS:
                break
            folder.rmdir()


def diff(change: FileEdit) -> str:
    """Return a change as a unified diff, with secrets masked."""
    old, new = (
        "/dev/null" if text is None else str(change.path) for text in (change.before, change.after)
    )
    before, after = ((text or "").splitlines() for text in (change.before, change.after))
    lines = difflib.unified_diff(before, after, old, new, lineterm="")
    return masked("\n".join(lines))


def _insert_part(text: str | None, part: SettingsEdit, file: SettingsFile) -> str:
    if isinstance(part, OwnedFile):
        if text is not None and OURS not in text:
            raise Refused(
                f"{file.path} already exists and was not written by memvault",
                "rename it or move it elsewhere",
            )
        return part.text
    if not isinstance(part, MarkedBlock):
        return json_edit.insert_entry(text, part, dict(file.base))
    if part.unless and text and part.unless in text and part.marks.begin not in text:
        return text
    after = marked_blocks.insert_block(text, part.text, part.marks)
    if part.marks is TOML:
        _check_toml(text or "", after, file.path)
    return after


def _check_toml(before: str, after: str, path: Path) -> None:
    """Check that a TOML file is valid before and after the change.

    Raises:
        Refused: the file is not valid.
    """
    try:
        tomllib.loads(before)
    except ValueError as error:
        raise Refused(f"{path} is not valid TOML: {error}", _HINT) from error
    try:
        tomllib.loads(after)
    except ValueError as error:
        raise Refused(
            f"{path} already defines a server named memvault, or uses an inline table",
            "remove that server, or write each server as a separate table",
        ) from error


def _resolve(path: Path, context: SetupContext) -> Path:
    """Return a path with links resolved.

    Raises:
        Refused: a project file is outside the project.
    """
    real = Path(os.path.realpath(path))
    if context.of_project and not real.is_relative_to(os.path.realpath(context.root)):
        raise Refused(f"{path} is a link to {real}, outside the project", "edit that file yourself")
    return real


def _read(path: Path) -> str | None:
    try:
        return plain_files.read(path, plain_files.MAX_STATE_BYTES).decode()
    except FileNotFoundError:
        if os.path.lexists(path):
            raise Refused(f"{path} is not a regular file", "move it elsewhere") from None
        return None
    except NotADirectoryError as error:
        raise Refused(f"{path.parent} is not a folder", "move it elsewhere") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Refused(f"{path}, line {line}, is not UTF-8", "save it as UTF-8") from error
