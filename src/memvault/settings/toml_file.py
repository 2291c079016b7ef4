"""Read TOML files with size limits, and change single settings in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault.errors import MemvaultError
from memvault.files import atomic
from memvault.files.plain_files import MAX_SETTING_BYTES, read
from memvault.lazy_pattern import lazy_pattern

HINT = "correct the line, or delete it to use the default"
_MAX_DOTS = 100
_QUOTED = lazy_pattern(r"\"[^\"]*\"|'[^']*'")
_LONG_NUMBER = lazy_pattern(r"(?<!\d)\d{300}")


def read_table(path: Path, failure: type[MemvaultError]) -> dict[str, Any]:
    """Parse a TOML file and return its top-level table.

    Raises:
        MemvaultError: the file is a link, not a regular file, too large, or not valid TOML. The
            error is an instance of ``failure``.
    """
    import tomllib

    try:
        return tomllib.loads(_check_text(_read_file(path, failure).decode("utf-8-sig")))
    # The file is not TOML or not UTF-8, or a number has too many digits for Python.
    except (ValueError, RecursionError) as error:
        raise failure(f"{path} is not valid TOML: {error}", HINT) from error


def _check_text(text: str) -> str:
    """Return the text of a settings file if it can be parsed in reasonable time.

    Raises:
        ValueError: a key has too many parts, each a table nested in the previous one, or a number
        has too many digits.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MAX_DOTS and _QUOTED.sub("", line).count(".") > _MAX_DOTS:
            raise ValueError(f"line {number} has more than {_MAX_DOTS} dots")
        if _LONG_NUMBER.search(line):
            raise ValueError(f"line {number} has a number with hundreds of digits")
    return text


def _read_file(path: Path, failure: type[MemvaultError]) -> bytes:
    try:
        return read(path, MAX_SETTING_BYTES)
    except FileNotFoundError:
        if path.is_symlink():
            reason, hint = "it is a link", "replace the link with the file itself"
        elif path.exists():
            reason, hint = (
                "it is not a regular file",
                "move it elsewhere and create the settings again",
            )
        else:
            reason, hint = "the file does not exist", "run `memvault init` to create it"
    except OSError as error:
        reason, hint = error.strerror or "", "check its permissions and size"
    raise failure(f"{path} cannot be read: {reason}", hint)


def read_bytes(path: Path, failure: type[MemvaultError]) -> bytes | None:
    """Return a settings file's bytes, or None if it is missing.

    Raises:
        MemvaultError: the file exists but cannot be read. The error is an instance of ``failure``.
    """
    return _read_file(path, failure) if path.exists() else None


def write_values(
    path: Path,
    section: str,
    values: Mapping[str, Any],
    failure: type[MemvaultError],
    before: bytes | None,
) -> None:
    """Change settings in a file with ``set_values``; ``before`` comes from ``read_bytes``.

    A new file is readable and writable only for its user.

    Raises:
        MemvaultError: the file is not valid TOML. The error is an instance of ``failure``.
        Conflict: an editor has just saved the file.
        StorageError: the file cannot be written.
    """
    after = set_values(path, section, values, failure, before or b"")
    if before is None:
        atomic.write(path, after, private=True)
    else:
        atomic.replace_unchanged(path, before, after)


def set_values(
    path: Path,
    section: str,
    values: Mapping[str, Any],
    failure: type[MemvaultError],
    data: bytes | None = None,
) -> bytes:
    """Return a settings file's bytes with a section's settings changed and its comments kept.

    A value of None removes the setting. ``data`` is the file's content; it is read if omitted.

    Raises:
        MemvaultError: the file exists but cannot be read, or is not valid TOML.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if data is None:
        data = read_bytes(path, failure) or b""
    try:
        document = tomlkit.parse(data.decode("utf-8-sig"))
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise failure(f"{path} is not valid TOML: {error}", HINT) from error
    table = document.get(section)
    if not isinstance(table, dict):
        table = document[section] = tomlkit.table()
    for key, value in values.items():
        _set_value(table, key, value)
    return tomlkit.dumps(document).encode()


def _set_value(table: dict[str, Any], key: str, value: Any) -> None:
    """Set a value in a parsed file, keeping the comments in lists and tables."""
    current = table.get(key)
    if value is None:
        table.pop(key, None)
    elif isinstance(current, list):
        _update_list(current, value)
    elif isinstance(current, dict) and isinstance(value, Mapping):
        for name in [name for name in current if name not in value]:
            del current[name]
        for name, entry in value.items():
            if name not in current or current[name] != entry:
                current[name] = entry
    else:
        table[key] = value


def _update_list(current: list[Any], value: list[Any]) -> None:
    """Change the entries in a list in a TOML document, keeping its comments."""
    for entry in [entry for entry in current if entry not in value]:
        current.remove(entry)
    if list(current) != [entry for entry in value if entry in current]:
        current.clear()
    for position, entry in enumerate(value):
        if entry not in current:
            current.insert(position, entry)
