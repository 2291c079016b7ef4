"""A file of settings: read with limits, its settings taken one by one, one of them changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memvault.errors import MemvaultError
from memvault.files.plain_files import SETTING, read

_HINT = "correct the line, or delete it for the default"
_MOST_DOTS = 100
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_LONG_NUMBER = re.compile(r"(?<!\d)\d{300}")


def are_texts(value: Any) -> bool:
    """Say whether a setting is a list of texts."""
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


MODEL = "a name or a folder", lambda value: isinstance(value, str)
"""What the setting of a model must be."""


class SettingsFile:
    """The settings in a TOML file; what nobody has taken is unknown.

    ``failure`` is the error that says what is wrong with the file.

    Raises:
        MemvaultError: it is a link or no file, is too large, or is not TOML.
    """

    def __init__(self, path: Path, failure: type[MemvaultError]) -> None:
        import tomllib

        self._path = path
        self._failure = failure
        self.explicit: set[str] = set()
        """The settings that were taken and say something."""
        try:
            self._table = tomllib.loads(_checked(_bytes(path, failure).decode("utf-8-sig")))
        except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, 5,000 digits
            raise failure(f"{path} is not valid TOML: {error}", _HINT) from error
        self._sections: set[str] = set()

    def pop(self, name: str, default: Any, wanted: str, fits: Callable[[Any], bool]) -> Any:
        """Return a setting, ``key`` or ``section.key``; ``wanted`` says what it must be.

        Raises:
            MemvaultError: it does not fit.
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
        """Return the names of the settings that nobody has taken."""
        names = []
        for name, value in self._table.items():
            known = name in self._sections
            names += [f"{name}.{key}" for key in value] if known else [name]
        return names


def _checked(text: str) -> str:
    """Return the text of settings, unless reading it would take longer than anyone waits.

    Raises:
        ValueError: a key has too many parts, each of which is a table within the last.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MOST_DOTS and _QUOTED.sub("", line).count(".") > _MOST_DOTS:
            raise ValueError(f"line {number} has more than {_MOST_DOTS} dots")
        if _LONG_NUMBER.search(line):
            raise ValueError(f"line {number} has a number of hundreds of digits")
    return text


def _bytes(path: Path, failure: type[MemvaultError]) -> bytes:
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
    """Return a file of settings with one of them changed and all comments kept.

    Raises:
        MemvaultError: the file is there and cannot be read, or is not TOML.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    data = _bytes(path, failure) if path.exists() else b""
    try:
        document = tomlkit.parse(data.decode("utf-8-sig"))
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise failure(f"{path} is not valid TOML: {error}", _HINT) from error
    table = document.get(section)
    if not isinstance(table, dict):
        table = document[section] = tomlkit.table()
    held = table.get(key)
    if isinstance(held, list) and isinstance(value, list):  # its comments stay
        for entry in [entry for entry in held if entry not in value]:
            held.remove(entry)
        held.extend(entry for entry in value if entry not in held)
    else:
        table[key] = value
    return tomlkit.dumps(document).encode()
