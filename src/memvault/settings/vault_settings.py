"""The settings of a vault, in ``memvault.toml``, with their defaults and valid values."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault import clock
from memvault.errors import VaultUnreadable
from memvault.files.user_folders import SETTINGS_FILE
from memvault.model import MemoryType
from memvault.settings.toml_file import MODEL, SettingsFile, are_texts

if TYPE_CHECKING:
    from memvault.secrets.detector import SecretDetector

_MAX_WARNED = 10
COLLECTION = "letters, digits and _, 100 at most, a digit not first"
_COLLECTION = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_VAULT_ID = re.compile(r"[a-z0-9]{1,32}")
_MAX_IGNORE_LENGTH = 10_000
"""Total length of all ``ignore`` patterns; every file of the vault is matched against them."""
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
    "auto arabic danish dutch english finnish french german greek hungarian italian norwegian "
    "portuguese romanian russian spanish swedish tamil turkish none"
).split()


class RankingSettings(NamedTuple):
    """Weights of the signals in recall other than terms and vectors; 0 turns a signal off.

    ``date`` is used only if a query has dates; ``diversity`` moves a result down that repeats a
    better one.
    """

    recency: float = 0.02
    importance: float = 0.05
    date: float = 0.15
    diversity: bool = True


class HistorySettings(NamedTuple):
    """Limits of the history: revisions per memory, and age in days and megabytes of all of them.

    ``trash_days`` is how long forgotten files stay in the trash; 0 keeps them until it is emptied.
    """

    revisions: int = 50
    days: int = 365
    megabytes: int = 500
    trash_days: int = 0


KEPT = HistorySettings()


class SecretSettings(NamedTuple):
    """What to do about keys, tokens and passwords that tools write: warn, refuse or off.

    ``detector`` is the way of finding them: ``builtin``, or ``kingfisher`` in addition.
    """

    on_write: str = "warn"
    detector: str = "builtin"


class EngineSettings(NamedTuple):
    """Where the keyword index and vectors are stored: ``local``, or ``milvus`` at ``uri``.

    ``vault`` is the id of this vault in the ``collection``; with ``fallback``, the local index
    answers while the engine is unavailable. ``patience`` is the timeout of a request to the engine
    in seconds. ``sent`` names the machine that has the files, if they are not on this one.
    """

    engine: str = "local"
    uri: str = ""
    collection: str = "memvault"
    vault: str = ""
    fallback: bool = False
    patience: float = 3.0
    sent: str = ""


class Settings(NamedTuple):
    """The settings in force; ``explicit`` names those in ``memvault.toml``: ``embedder.model``."""

    types: tuple[MemoryType, ...] = BUILTIN_TYPES
    ignore: tuple[str, ...] = ()
    language: str = "auto"
    embedder: str = "builtin"
    deep: str = "auto"
    reranker: str = "Xenova/ms-marco-MiniLM-L-6-v2"
    ranking: RankingSettings = RankingSettings()
    history: HistorySettings = KEPT
    secrets: SecretSettings = SecretSettings()
    shared: EngineSettings = EngineSettings()
    timezone: str = "UTC"
    active_budget: int = 8_000
    mcp_budget: int = 1_500
    mcp_tools: str = ""
    world: bool = False
    autocommit: bool = False
    explicit: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def detector(self) -> SecretDetector:
        """The detector of secrets in the texts of this vault."""
        from memvault.secrets.detector import detector_named

        return detector_named(self.secrets.detector)


def _are_types(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(name := entry.get("name"), str) and name.strip()
        for entry in value
    )


def _are_patterns(value: Any) -> bool:
    return are_texts(value) and sum(map(len, value)) <= _MAX_IGNORE_LENGTH


def _is_timezone(value: Any) -> bool:
    with contextlib.suppress(ValueError):
        return isinstance(value, str) and bool(clock.zone(value))
    return False


def is_collection(name: str) -> bool:
    """Return whether a text is a valid name of a collection in an engine."""
    return bool(_COLLECTION.fullmatch(name))


def is_address(value: Any) -> bool:
    """Return whether a text is a valid address of an engine.

    User names, passwords and queries are not allowed, since the address is shown and may not hold a
    secret.
    """
    if not _is_line(value) or "@" in value:
        return False
    if "://" not in value:
        return True
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.hostname) and not parts.query and not parts.fragment


def is_patience(value: Any) -> bool:
    """Return whether a value is a valid timeout of an engine, in seconds."""
    return type(value) in (int, float) and 1 <= value <= 600


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_weight(value: Any) -> bool:
    return value is not True and isinstance(value, int | float) and 0 <= value <= 1


def _count(minimum: int) -> tuple[str, Callable[[Any], bool]]:
    return (
        f"a whole number, at least {minimum} and at most {_HISTORY_MAXIMUM:,}",
        lambda value: type(value) is int and minimum <= value <= _HISTORY_MAXIMUM,
    )


_HISTORY_MINIMUMS = {"revisions": 1, "days": 1, "megabytes": 1, "trash_days": 0}
_HISTORY_MAXIMUM = 1_000_000
_WEIGHT = "a number from 0 to 1, or false", _is_weight
_VALID_VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "types": ("[[types]] tables, each with a name", _are_types),
    "ignore": (f"a list of texts, {_MAX_IGNORE_LENGTH:,} characters at most", _are_patterns),
    "language": (
        f"one of {', '.join(LANGUAGES)}",
        lambda value: isinstance(value, str) and value.lower() in LANGUAGES,
    ),
    "embedder.model": MODEL,
    "embedder.deep": ("auto, off or now", lambda value: value in ("auto", "off", "now")),
    "rerank.model": MODEL,
    "ranking.recency": _WEIGHT,
    "ranking.importance": _WEIGHT,
    "ranking.date": _WEIGHT,
    "ranking.diversity": ("true or false", lambda value: value in (True, False)),
    **{f"history.{name}": _count(least) for name, least in _HISTORY_MINIMUMS.items()},
    "secrets.on_write": (
        "warn, refuse or off",
        lambda value: value in ("warn", "refuse", "off"),
    ),
    "secrets.detector": (
        "builtin or kingfisher",
        lambda value: value in ("builtin", "kingfisher"),
    ),
    "index.engine": ("local or milvus", lambda value: value in ("local", "milvus")),
    "index.uri": (
        "an engine's address, as http://localhost:19530, without a name, a password or a query",
        is_address,
    ),
    "index.collection": (
        COLLECTION,
        lambda value: isinstance(value, str) and is_collection(value),
    ),
    "index.vault": (
        "the id that memvault index push gave it",
        lambda value: isinstance(value, str) and bool(_VAULT_ID.fullmatch(value)),
    ),
    "index.fallback": ("true or false", lambda value: isinstance(value, bool)),
    "index.patience": ("seconds, from 1 to 600", is_patience),
    "index.sent": ("the name of the machine that sends it", _is_line),
    "index.token": (
        "in MEMVAULT_MILVUS_TOKEN, never in this file, which others may read",
        lambda _: False,
    ),
    "plans.timezone": ("a name such as UTC or Europe/Berlin", _is_timezone),
    "active.budget": (
        "a whole number of tokens, at least 1",
        lambda value: type(value) is int and value >= 1,
    ),
    "mcp.budget": (
        "a whole number of tokens, 0 for no limit",
        lambda value: type(value) is int and value >= 0,
    ),
    "mcp.tools": (
        "names of profiles and tools, as core,talk",
        lambda value: isinstance(value, str),
    ),
    "world.enabled": ("true or false", lambda value: isinstance(value, bool)),
    "git.autocommit": ("true or false", lambda value: isinstance(value, bool)),
    "version": ("a number", lambda _: True),  # another version only causes a warning
}
"""The valid values of each setting: a description and a test."""


def load_settings(root: Path) -> Settings:
    """Load ``memvault.toml``.

    Raises:
        VaultUnreadable: the file cannot be read, or a setting is invalid.
    """
    file = SettingsFile(root / SETTINGS_FILE, VaultUnreadable)

    def take(name: str, default: Any) -> Any:
        return file.pop(name, default, *_VALID_VALUES[name])

    defaults = Settings()
    weights = {
        key: take(f"ranking.{key}", value) for key, value in defaults.ranking._asdict().items()
    }
    history = {
        key: take(f"history.{key}", value) for key, value in defaults.history._asdict().items()
    }
    secret_defaults = defaults.secrets._asdict().items()
    secrets = {key: take(f"secrets.{key}", value) for key, value in secret_defaults}
    shared = {key: take(f"index.{key}", value) for key, value in defaults.shared._asdict().items()}
    take("index.token", "")
    if shared["engine"] == defaults.shared.engine:
        shared["sent"] = ""
    own_types = [
        MemoryType(entry["name"].strip(), str(entry.get("description", "")))
        for entry in take("types", [])
    ]
    names = {entry.name for entry in own_types}
    settings = Settings(
        types=(*(builtin for builtin in BUILTIN_TYPES if builtin.name not in names), *own_types),
        ignore=tuple(take("ignore", ())),
        language=take("language", defaults.language).lower(),
        embedder=take("embedder.model", "") or defaults.embedder,
        deep=take("embedder.deep", defaults.deep),
        reranker=take("rerank.model", "") or defaults.reranker,
        ranking=RankingSettings(**weights),
        history=HistorySettings(**history),
        secrets=SecretSettings(**secrets),
        shared=EngineSettings(**shared),
        timezone=take("plans.timezone", defaults.timezone),
        active_budget=take("active.budget", defaults.active_budget),
        mcp_budget=take("mcp.budget", defaults.mcp_budget),
        mcp_tools=take("mcp.tools", defaults.mcp_tools),
        world=take("world.enabled", defaults.world),
        autocommit=take("git.autocommit", defaults.autocommit),
    )
    warnings = []
    if take("version", 1) != 1:
        warnings.append(f"{SETTINGS_FILE} is of a version that this memvault does not know")
    unknown = file.unknown()
    warnings += [
        f"{SETTINGS_FILE}: unknown setting {name!r} is ignored" for name in unknown[:_MAX_WARNED]
    ]
    if len(unknown) > _MAX_WARNED:
        more = len(unknown) - _MAX_WARNED
        warnings.append(f"{SETTINGS_FILE}: {more:,} more settings are unknown")
    return settings._replace(explicit=frozenset(file.explicit), warnings=tuple(warnings))
