"""Where the vault is, what its settings say, and where each setting came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import StorageError, UsageError, VaultNotFound, VaultUnreadable
from memvault.model import MemoryType

__all__ = [
    "BUILTIN_TYPES",
    "LANGUAGES",
    "SETTINGS_FILE",
    "Ranking",
    "Settings",
    "cache_folder",
    "find_vault",
    "home_expanded",
    "load_settings",
    "models_folder",
    "state_folder",
    "with_setting",
]

_MEND = "mend the line, or delete it"
SETTINGS_FILE = "memvault.toml"
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


def find_vault(given: str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the vault's root: the given one, ``MEMVAULT_VAULT``, or the nearest parent.

    Raises:
        VaultNotFound: there is none.
        VaultUnreadable: it may not be looked into.
    """
    try:
        return _found_vault(given, environ)
    except PermissionError as error:
        raise VaultUnreadable(
            f"{error.filename} cannot be read: {error.strerror}", "check its permissions"
        ) from error


def _found_vault(given: str | None, environ: Mapping[str, str]) -> Path:
    named = given or environ.get("MEMVAULT_VAULT")
    if named:
        root = home_expanded(named)
        if root.is_file():
            raise VaultNotFound(f"{named} is a file", "a vault is a folder; name the one it is in")
        if not root.is_dir():
            raise VaultNotFound(
                f"There is no folder {named}", f"memvault init {named} makes a vault there"
            )
        if not (root / SETTINGS_FILE).is_file():
            raise VaultNotFound(
                f"{named} is not a vault: it has no {SETTINGS_FILE}",
                f"memvault init {named} makes it one without touching its files",
            )
        return root.resolve()
    here = _working_folder()
    for folder in (here, *here.parents):
        if (folder / SETTINGS_FILE).is_file():
            return folder
    raise VaultNotFound(
        f"No {SETTINGS_FILE} in {here} or above it",
        "memvault init makes this folder a vault; --vault DIR or MEMVAULT_VAULT names another",
    )


def home_expanded(text: str) -> Path:
    """Return a path with ``~`` as the home folder; where there is none it stays as it is."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def load_settings(root: Path) -> Settings:
    """Read ``memvault.toml``.

    Raises:
        VaultUnreadable: the file cannot be read, or a setting makes no sense.
    """
    import tomllib

    path = root / SETTINGS_FILE
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise VaultUnreadable(
            f"{path} cannot be read: {error.strerror}", "check its permissions"
        ) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits
        raise VaultUnreadable(f"{path} is not valid TOML: {error}", _MEND) from error
    warnings: list[str] = []
    plain = Settings()
    reranker = _model(table, "rerank", path, warnings)
    settings = Settings(
        types=_types(table.pop("types", []), path),
        ignore=tuple(_strings(table.pop("ignore", []), "ignore", path)),
        language=_choice(table.pop("language", "english"), LANGUAGES, "language", path),
        embedder=_model(table, "embedder", path, warnings) or plain.embedder,
        reranker=reranker or plain.reranker,
        ranking=_ranking(table.pop("ranking", {}), path, warnings),
        timezone=_timezone(table.pop("plans", {}), path, warnings),
        active_budget=_active_budget(table.pop("active", {}), path, warnings),
        world=_world(table.pop("world", {}), path, warnings),
    )
    if table.pop("version", 1) != 1:
        warnings.append(f"{SETTINGS_FILE} is of a version that this memvault does not know")
    warnings += [f"{SETTINGS_FILE}: unknown setting {key!r} is ignored" for key in table]
    named = {key: SETTINGS_FILE if value else "default" for key, value in _set(settings).items()}
    if reranker:  # also where it names the default
        named["reranker"] = SETTINGS_FILE
    return settings._replace(sources=named, warnings=tuple(warnings))


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
            "mend the line, or delete it to have what is usual",
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
                "mend the line, or delete it to have what is usual",
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


def with_setting(root: Path, section: str, key: str, value: str) -> bytes:
    """Return ``memvault.toml`` with one setting changed and all comments kept."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path = root / SETTINGS_FILE
    try:
        document = tomlkit.parse(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror}", "check its permissions"
        ) from error
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise VaultUnreadable(f"{path} is not valid TOML: {error}", _MEND) from error
    table = document.get(section)
    if not isinstance(table, dict):
        table = tomlkit.table()
        document[section] = table
    table[key] = value
    return tomlkit.dumps(document).encode()


def models_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where downloaded models are kept: ``MEMVAULT_MODELS`` or the user's cache."""
    if environ.get("MEMVAULT_MODELS"):
        return home_expanded(environ["MEMVAULT_MODELS"])
    return cache_folder(environ) / "models"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's cache folder for memvault."""
    base = environ.get("XDG_CACHE_HOME") or environ.get("LOCALAPPDATA")
    return Path(base or home_expanded("~/.cache")) / "memvault"


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where what a user decided on this machine is kept, outside every vault."""
    if environ.get("MEMVAULT_STATE"):
        return home_expanded(environ["MEMVAULT_STATE"])
    base = environ.get("XDG_STATE_HOME") or environ.get("LOCALAPPDATA")
    return Path(base or home_expanded("~/.local/state")) / "memvault"


def _working_folder() -> Path:
    try:
        return Path.cwd().resolve()
    except OSError as error:
        raise UsageError("The current folder no longer exists", "cd to one that does") from error
