"""Read TOML settings files with limits and validation, and change single settings in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memvault.errors import MemvaultError
from memvault.files.plain_files import SETTING, read

_HINT = "correct the line, or delete it for the default"
_MAX_DOTS = 100
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_LONG_NUMBER = re.compile(r"(?<!\d)\d{300}")


def are_texts(value: Any) -> bool:
    """Return whether a setting's value is a list of strings."""
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


MODEL = "a name or a folder", lambda value: isinstance(value, str)
"""The description and the test of a setting that names a model."""


class SettingsFile:
    """The settings in a TOML file; those that are never popped are reported as unknown.

    ``failure`` is the class of the errors raised for the file.

    Raises:
        MemvaultError: the file is a link, not a regular file, too large, or not valid TOML.
    """

    def __init__(self, path: Path, failure: type[MemvaultError]) -> None:
        import tomllib

        self._path = path
        self._failure = failure
        self.explicit: set[str] = set()
        """Names of the popped settings that the file sets to something other than an empty string.
        """
        try:
            self._table = tomllib.loads(_check_text(_read_file(path, failure).decode("utf-8-sig")))
        except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, 5,000 digits
            raise failure(f"{path} is not valid TOML: {error}", _HINT) from error
        self._sections: set[str] = set()

    def pop(self, name: str, default: Any, wanted: str, fits: Callable[[Any], bool]) -> Any:
        """Remove and return a setting named ``key`` or ``section.key``, after checking its value.

        ``wanted`` describes a valid value, ``fits`` tests it.

        Raises:
            MemvaultError: the value is not valid.
        """
        section, _, key = name.rpartition(".")
        table = self._table.get(section, {}) if section else self._table
        if not isinstance(table, dict):
            raise self._failure(f"{self._path}: {section} must be a [{section}] table", _HINT)
        self._sections.add(section)
        if key not in table:
            return default
        value = table.pop(key)
        if not fits(value):
            raise self._failure(f"{self._path}: {name} must be {wanted}", _HINT)
        if value != "":
            self.explicit.add(name)
        return value

    def unknown(self) -> list[str]:
        """Return the names of the settings that were never popped."""
        names = []
        for name, value in self._table.items():
            is_section = name in self._sections
            names += [f"{name}.{key}" for key in value] if is_section else [name]
        return names


def _check_text(text: str) -> str:
    """Return the text of a settings file, unless parsing it would take unreasonably long.

    Raises:
        ValueError: a key has too many parts, each a table nested in the previous one, or a number
            has too many digits.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MAX_DOTS and _QUOTED.sub("", line).count(".") > _MAX_DOTS:
            raise ValueError(f"line {number} has more than {_MAX_DOTS} dots")
        if _LONG_NUMBER.search(line):
            raise ValueError(f"line {number} has a number of hundreds of digits")
    return text


def _read_file(path: Path, failure: type[MemvaultError]) -> bytes:
    try:
        return read(path, SETTING)
    except FileNotFoundError:
        if path.is_symlink():
            reason, hint = "it is a link", "settings are read from the file itself: put it there"
        elif path.exists():
            reason, hint = "it is not a plain file", "move it away, and write the settings again"
        else:
            reason, hint = "there is no such file", "memvault init makes one"
    except OSError as error:
        reason, hint = error.strerror or "", "check its permissions and size"
    raise failure(f"{path} cannot be read: {reason}", hint)


def set_value(
    path: Path, section: str, key: str, value: Any, failure: type[MemvaultError]
) -> bytes:
    """Return a settings file's bytes with one setting changed and all comments kept.

    Raises:
        MemvaultError: the file exists but cannot be read, or is not valid TOML.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    data = _read_file(path, failure) if path.exists() else b""
    try:
        document = tomlkit.parse(data.decode("utf-8-sig"))
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise failure(f"{path} is not valid TOML: {error}", _HINT) from error
    table = document.get(section)
    if not isinstance(table, dict):
        table = document[section] = tomlkit.table()
    current = table.get(key)
    if isinstance(current, list) and isinstance(value, list):  # its comments are kept
        for entry in [entry for entry in current if entry not in value]:
            current.remove(entry)
        current.extend(entry for entry in value if entry not in current)
    else:
        table[key] = value
    return tomlkit.dumps(document).encode()
