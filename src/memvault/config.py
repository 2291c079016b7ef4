"""What a vault's settings say, and where each one came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import VaultUnreadable
from memvault.model import MemoryType
from memvault.plain_files import SETTING, read
from memvault.user_folders import SETTINGS_FILE

__all__ = [
    "BUILTIN_TYPES",
    "LANGUAGES",
    "SETTINGS_FILE",
    "Ranking",
    "Settings",
    "load_settings",
    "with_setting",
]

_MEND = "correct the line, or delete it"
_SHOWN = 10
_MOST_DOTS = 100
_MOST_IGNORED = 10_000
"""Characters of all patterns of ``ignore``: each file of the vault is held against them."""
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_LONG_NUMBER = re.compile(r"(?<!\d)\d{300}")
BUILTIN_TYPES = (
    MemoryType("architectural-decision", "A choice about the system's structure, with its reasons"),
    MemoryType("design-decision", "A choice about one part, its interface or its looks"),
    MemoryType("learning", "Something found out that will be needed again"),
    MemoryType("user-preference", "How a person likes things done"),
    MemoryType("project-preference", "How this project does things, by agreement"),
    MemoryType("issue", "A problem, what causes it and how it is worked around or solved"),
    MemoryType("context", "Background that fits no other type"),
    MemoryType("recurring-pattern", "A situation that comes back and what to do then"),
    MemoryType("conventions-pattern", "A rule of naming, layout or style"),
    MemoryType("episode", "Something that happened: situation, actions, outcome"),
    MemoryType("fact", "A single statement that holds"),
    MemoryType("procedure", "How something is done, step by step"),
)
LANGUAGES = (
    "arabic danish dutch english finnish french german greek hungarian italian norwegian "
    "portuguese romanian russian spanish swedish tamil turkish none"
).split()


class Ranking(NamedTuple):
    """What counts in a recall beside words and meaning: weights, 0 switches one off.

    ``date`` counts only where a query speaks of days; ``diversity`` puts what
    repeats a better answer further down.
    """

    recency: float = 0.02
    importance: float = 0.05
    date: float = 0.15
    diversity: bool = True


class Settings(NamedTuple):
    """The settings in force; ``sources`` names the file or variable each one came from."""

    types: tuple[MemoryType, ...] = BUILTIN_TYPES
    ignore: tuple[str, ...] = ()
    language: str = "english"
    embedder: str = "builtin"
    reranker: str = "Xenova/ms-marco-MiniLM-L-6-v2"
    ranking: Ranking = Ranking()
    timezone: str = "UTC"
    active_budget: int = 8_000
    world: bool = False
    sources: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()


def load_settings(root: Path) -> Settings:
    """Read ``memvault.toml``.

    Raises:
        VaultUnreadable: the file cannot be read, or a setting makes no sense.
    """
    import tomllib

    path = root / SETTINGS_FILE
    try:
        table = tomllib.loads(_checked(_bytes(path).decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits
        raise VaultUnreadable(f"{path} is not valid TOML: {error}", _MEND) from error
    warnings: list[str] = []
    plain = Settings()
    embedder = _model(table, "embedder", path, warnings)
    reranker = _model(table, "rerank", path, warnings)
    settings = Settings(
        types=_types(table.pop("types", []), path),
        ignore=_ignored(table.pop("ignore", []), path),
        language=_choice(table.pop("language", "english"), LANGUAGES, "language", path),
        embedder=embedder or plain.embedder,
        reranker=reranker or plain.reranker,
        ranking=_ranking(table.pop("ranking", {}), path, warnings),
        timezone=_timezone(table.pop("plans", {}), path, warnings),
        active_budget=_active_budget(table.pop("active", {}), path, warnings),
        world=_world(table.pop("world", {}), path, warnings),
    )
    if table.pop("version", 1) != 1:
        warnings.append(f"{SETTINGS_FILE} is of a version that this memvault does not know")
    unknown = list(table)
    warnings += [f"{SETTINGS_FILE}: unknown setting {key!r} is ignored" for key in unknown[:_SHOWN]]
    if len(unknown) > _SHOWN:
        warnings.append(f"{SETTINGS_FILE}: {len(unknown) - _SHOWN:,} more settings are unknown")
    named = {key: SETTINGS_FILE if value else "default" for key, value in _set(settings).items()}
    for key, model in (("embedder", embedder), ("reranker", reranker)):
        if model:  # also where it names the default
            named[key] = SETTINGS_FILE
    return settings._replace(sources=named, warnings=tuple(warnings))


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


def _ignored(value: Any, path: Path) -> tuple[str, ...]:
    patterns = _strings(value, "ignore", path)
    if sum(map(len, patterns)) > _MOST_IGNORED:
        raise VaultUnreadable(
            f"{path}: ignore has more than {_MOST_IGNORED:,} characters", "name folders, not files"
        )
    return tuple(patterns)


def _set(settings: Settings) -> dict[str, bool]:
    plain = Settings()
    return {
        key: getattr(settings, key) != getattr(plain, key)
        for key in (
            "types",
            "ignore",
            "language",
            "embedder",
            "reranker",
            "ranking",
            "timezone",
            "active_budget",
            "world",
        )
    }


def _types(value: Any, path: Path) -> tuple[MemoryType, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise VaultUnreadable(f"{path}: types must be written as [[types]] tables", _MEND)
    own = []
    for entry in value:
        name = entry.get("name")
        if not isinstance(name, str) or not name.strip():
            raise VaultUnreadable(f"{path}: every [[types]] table needs a name", _MEND)
        own.append(MemoryType(name.strip(), str(entry.get("description", ""))))
    names = {entry.name for entry in own}
    return (*(known for known in BUILTIN_TYPES if known.name not in names), *own)


def _strings(value: Any, key: str, path: Path) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise VaultUnreadable(f"{path}: {key} must be a list of texts", _MEND)
    return list(value)


def _choice(value: Any, allowed: list[str], key: str, path: Path) -> str:
    name = str(value).lower()
    if name not in allowed:
        raise VaultUnreadable(
            f"{path}: {key} must be one of {', '.join(allowed)}, not {value!r}",
            "correct the line, or delete it for the default",
        )
    return name


def _model(table: dict[str, Any], section: str, path: Path, warnings: list[str]) -> str:
    """Take the name of a model out of the settings; it is empty where they name none."""
    value = table.pop(section, {})
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or not isinstance(value.get("model", ""), str):
        raise VaultUnreadable(
            f'{path}: {section} must be written [{section}] and model = "NAME"', _MEND
        )
    _mention_others(value, section, "model", warnings)
    return str(value.get("model", ""))


def _ranking(value: Any, path: Path, warnings: list[str]) -> Ranking:
    if not isinstance(value, dict):
        raise VaultUnreadable(f"{path}: ranking must be written as a [ranking] table", _MEND)
    ranking = Ranking()
    for key, weight in value.items():
        if key not in Ranking._fields:
            warnings.append(f"{SETTINGS_FILE}: unknown setting 'ranking.{key}' is ignored")
        elif key == "diversity" and weight in (True, False):
            ranking = ranking._replace(diversity=bool(weight))
        elif key == "diversity" or weight is True or not _is_share(weight):
            wanted = "true or false" if key == "diversity" else "a number from 0 to 1, or false"
            raise VaultUnreadable(
                f"{path}: ranking.{key} must be {wanted}",
                "correct the line, or delete it for the default",
            )
        else:
            ranking = Ranking(**{**ranking._asdict(), key: float(weight)})
    return ranking


def _active_budget(value: Any, path: Path, warnings: list[str]) -> int:
    if not isinstance(value, dict):
        raise VaultUnreadable(f"{path}: active must be written as an [active] table", _MEND)
    _mention_others(value, "active", "budget", warnings)
    budget = value.get("budget", Settings().active_budget)
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise VaultUnreadable(
            f"{path}: active.budget must be a whole number of tokens, at least 1", _MEND
        )
    return budget


def _world(value: Any, path: Path, warnings: list[str]) -> bool:
    enabled = value.get("enabled", False) if isinstance(value, dict) else None
    if not isinstance(enabled, bool):
        raise VaultUnreadable(
            f"{path}: world must be written [world] and enabled = true or false", _MEND
        )
    _mention_others(value, "world", "enabled", warnings)
    return enabled


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def _timezone(value: Any, path: Path, warnings: list[str]) -> str:
    name = value.get("timezone", "UTC") if isinstance(value, dict) else None
    if not isinstance(name, str):
        raise VaultUnreadable(f'{path}: plans must be written [plans] and timezone = "NAME"', _MEND)
    try:
        clock.zone(name)
    except ValueError as error:
        raise VaultUnreadable(
            f"{path}: plans.timezone: {error}", "write a name such as UTC or Europe/Berlin"
        ) from error
    _mention_others(value, "plans", "timezone", warnings)
    return name


def _mention_others(
    table: Mapping[str, Any], section: str, known: str, warnings: list[str]
) -> None:
    """Warn of a section's keys that are not the one it may have."""
    warnings += [
        f"{SETTINGS_FILE}: unknown setting '{section}.{key}' is ignored"
        for key in table
        if key != known
    ]


def with_setting(path: Path, section: str, key: str, value: Any) -> bytes:
    """Return a file of settings with one of them changed and all comments kept.

    Raises:
        VaultUnreadable: the file is there and cannot be read, or is not TOML.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    data = _bytes(path) if path.exists() else b""
    try:
        document = tomlkit.parse(data.decode("utf-8-sig"))
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise VaultUnreadable(f"{path} is not valid TOML: {error}", _MEND) from error
    table = document.get(section)
    if not isinstance(table, dict):
        table = tomlkit.table()
        document[section] = table
    held = table.get(key)
    if isinstance(held, list) and isinstance(value, list):  # its comments stay
        for entry in [entry for entry in held if entry not in value]:
            held.remove(entry)
        held.extend(entry for entry in value if entry not in held)
    else:
        table[key] = value
    return tomlkit.dumps(document).encode()


def _bytes(path: Path) -> bytes:
    """Return what is in a file of settings.

    Raises:
        VaultUnreadable: it is a link or no file, cannot be read, or is too large.
    """
    try:
        return read(path, SETTING)
    except FileNotFoundError as error:
        if path.is_symlink():
            reason, hint = "it is a link", "settings are read from the file itself: put it there"
        elif path.exists():
            reason, hint = "it is not a plain file", "move it away, and write the settings again"
        else:
            reason, hint = "there is no such file", "memvault init makes one"
        raise VaultUnreadable(f"{path} cannot be read: {reason}", hint) from error
    except OSError as error:
        raise VaultUnreadable(
            f"{path} cannot be read: {error.strerror}", "check its permissions and size"
        ) from error
