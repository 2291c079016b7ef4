"""Define the settings in a vault's ``memvault.toml``, one row each."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import clock
from memvault.errors import VaultUnreadable
from memvault.files.user_folders import SETTINGS_FILE
from memvault.lazy_pattern import lazy_pattern
from memvault.model import MemoryType
from memvault.settings import table
from memvault.settings.exclusions import MAX_IGNORE_LENGTH, Exclusions
from memvault.settings.table import (
    FLAG,
    MODEL,
    SWITCH,
    TOOLS,
    Section,
    Setting,
    ValueKind,
    one_of,
    text,
    texts,
    whole,
)

if TYPE_CHECKING:
    from memvault.secrets.detector import SecretDetector

BUILTIN_TYPES: tuple[MemoryType, ...] = (
    MemoryType(
        "architectural-decision", "A decision about the system's structure, with its reasons"
    ),
    MemoryType(
        "design-decision", "A decision about one component, its interface or its appearance"
    ),
    MemoryType("learning", "A finding that will be useful again"),
    MemoryType("user-preference", "A user's preferred way of working"),
    MemoryType("project-preference", "A convention agreed on for this project"),
    MemoryType("issue", "A problem, its cause, and its workaround or solution"),
    MemoryType("context", "Background information that does not fit another type"),
    MemoryType("recurring-pattern", "A recurring situation and how to handle it"),
    MemoryType("conventions-pattern", "A rule about naming, layout or style"),
    MemoryType("episode", "Something that happened: situation, actions, outcome"),
    MemoryType("fact", "A single true statement"),
    MemoryType("procedure", "Step-by-step instructions"),
)
LANGUAGES = (
    "auto arabic danish dutch english finnish french german greek hungarian italian norwegian "
    "portuguese romanian russian spanish swedish tamil turkish none"
).split()


SEARCH_KEYS = frozenset(("query", "memoryType", "tags", "since", "until", "filter"))
"""The keys of a saved search, which are arguments of ``memory_recall``."""
_MAX_WARNED = 10


def _is_address(value: str) -> bool:
    """Return whether a string is a valid address of an engine.

    Usernames, passwords and queries are not allowed, because the address is shown and must not
    contain a secret.
    """
    if not value.isprintable() or "@" in value:
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


def _is_note_path(value: str) -> bool:
    return value.isprintable() and value.endswith(".md") and "{{date" in value


def _is_encoding(value: str) -> bool:
    try:
        return value == "auto" or isinstance("é".encode(value, "replace"), bytes)
    except (LookupError, ValueError):
        return False


def _is_timezone(value: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(clock.zone(value))
    return False


def _are_types(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(name := entry.get("name"), str) and name.strip()
        for entry in value
    )


def _are_searches(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(entry, str) or (isinstance(entry, dict) and entry.keys() <= SEARCH_KEYS)
        for entry in value.values()
    )


def _with_queries(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: {"query": entry} if isinstance(entry, str) else entry for name, entry in value.items()
    }


def _with_builtin_types(value: list[dict[str, Any]]) -> tuple[MemoryType, ...]:
    own_types = [
        MemoryType(entry["name"].strip(), str(entry.get("description", ""))) for entry in value
    ]
    names = {entry.name for entry in own_types}
    return (*(builtin for builtin in BUILTIN_TYPES if builtin.name not in names), *own_types)


_LIMIT = whole(1, 1_000_000)
_SIZE = whole(0, 1_000_000)
_WEIGHT = ValueKind(
    "a number from 0 to 1, or false",
    lambda value: value is not True and isinstance(value, int | float) and 0 <= value <= 1,
)
_FACTOR = ValueKind(
    "a number from 0 to 10", lambda value: type(value) in (int, float) and 0 <= value <= 10
)
_VERSION = ValueKind("a number", lambda _: True)  # another version only causes a warning
_LANGUAGE = ValueKind(
    f"one of {', '.join(LANGUAGES)}",
    lambda value: isinstance(value, str) and value.lower() in LANGUAGES,
    str.lower,
)
_ENCODING = text("auto, or an encoding such as gbk, shift_jis or cp1251", _is_encoding)
_PATTERNS = texts(
    f"a list of strings, at most {MAX_IGNORE_LENGTH:,} characters in total",
    lambda value: sum(map(len, value)) <= MAX_IGNORE_LENGTH,
)
_ADDRESS = text(
    "an address such as http://localhost:19530, without a username, password or query", _is_address
)
_COLLECTION_NAME = lazy_pattern(r"[A-Za-z_]\w{0,99}", re.ASCII)
_VAULT_ID_FORM = lazy_pattern(r"[a-z0-9]{1,32}")
_COLLECTION = text(
    "at most 100 letters, digits and underscores, not starting with a digit",
    lambda value: _COLLECTION_NAME.fullmatch(value) is not None,
)
_VAULT_ID = text(
    "the id set by `memvault index push`", lambda value: _VAULT_ID_FORM.fullmatch(value) is not None
)
_SENDER = text("the name of the machine that pushes the index", str.isprintable)
_SECONDS = ValueKind(
    "seconds, from 1 to 600", lambda value: type(value) in (int, float) and 1 <= value <= 600
)
_TIMEZONE = text("a name such as UTC or Europe/Berlin", _is_timezone)
_TYPES = ValueKind("[[types]] tables, each with a name", _are_types, _with_builtin_types)
_SEARCHES = ValueKind(
    "a [searches] table with a query or a table for each", _are_searches, _with_queries
)
_OWN_TYPE = {"name": "meeting-note", "description": "Decisions and action items"}


class EmbedderSettings(Section):
    """The transformer; set by ``memvault model use``."""

    model = Setting("builtin", MODEL, "builtin, multilingual, a fastembed model, or a folder")
    deep = Setting(
        "auto", one_of("auto", "off", "now"), "when to embed: auto (in the background), now, or off"
    )
    token_megabytes = Setting(
        500, _SIZE, "maximum size of token vectors; the oldest notes get none"
    )


class RankingSettings(Section):
    """Weights of ranking features; 0 or false disables a feature."""

    vectors = Setting(1.0, _FACTOR, "similarity of meaning")
    recency = Setting(0.02, _WEIGHT, "newer memories")
    importance = Setting(0.05, _WEIGHT, "importance in the header")
    date = Setting(0.15, _WEIGHT, 'dates in a question, such as "last week" or "in May 2023"')
    diversity = Setting(True, SWITCH, "demote repeats of a better or newer result")


class RerankSettings(Section):
    """The cross-encoder of recall --rerank; set by ``memvault model use --for rerank``."""

    model = Setting("Xenova/ms-marco-MiniLM-L-6-v2", MODEL, "a fastembed model or a folder")


class DailySettings(Section):
    """Daily notes; the default is Obsidian's settings or the vault's folders."""

    path = Setting(
        "daily/{{date}}.md",
        text("a path ending in .md", _is_note_path),
        "also journal/{{date:YYYY/MM-DD}}.md",
    )
    template = Setting("daily", text("a template's name", str.isprintable), "template of new notes")
    heading = Setting(
        "", text("a heading", str.isprintable), "heading of new entries, such as ## Log"
    )


class ActiveSettings(Section):
    """An agent's active memory."""

    budget = Setting(8_000, whole(1), "maximum size in tokens")


class McpSettings(Section):
    """The MCP server."""

    budget = Setting(1_500, whole(0), "tokens per answer; 0: no limit")
    tools = Setting("", TOOLS, "profiles and tools to offer; see `memvault mcp --tools`")


class SecretSettings(Section):
    """Secrets in content that a tool writes; ``secrets: allowed`` in a header permits them."""

    on_write = Setting("warn", one_of("warn", "refuse", "off"), "warn, refuse or off")
    detector = Setting(
        "builtin",
        one_of("builtin", "kingfisher"),
        "builtin, or kingfisher, which has many more patterns",
    )


class HistorySettings(Section):
    """Limits of revisions and trash."""

    revisions = Setting(50, _LIMIT, "maximum per memory")
    days = Setting(365, _LIMIT, "maximum age in days")
    megabytes = Setting(500, _LIMIT, "maximum size of all revisions")
    trash_days = Setting(
        0, whole(0, 1_000_000), "days until a file in the trash is deleted; 0: never"
    )


class GitSettings(Section):
    """Git, after you ran ``memvault git init`` on this machine."""

    autocommit = Setting(False, FLAG, "true: commit each change")
    worktrees = Setting(True, FLAG, "false: ignore other git worktrees")


class EngineSettings(Section):
    """Where the index is stored.

    ``vault`` is the id of this vault in the ``collection``. ``sent`` is the name of the machine
    that has the files, if they are not on this machine.
    """

    engine = Setting(
        "local", one_of("local", "milvus"), "local, or milvus, which uses the settings below"
    )
    uri = Setting("", _ADDRESS, "the server's address", "http://localhost:19530")
    collection = Setting("memvault", _COLLECTION, "collection, which vaults can share")
    vault = Setting("", _VAULT_ID)
    fallback = Setting(False, FLAG, "true: use the local index while the server is unreachable")
    patience = Setting(3.0, _SECONDS, "timeout of a query in seconds")
    sent = Setting("", _SENDER)
    characters = Setting(2_000_000, whole(0), "maximum characters to index per memory; 0: all")


class DocumentSettings(Section):
    """Documents."""

    index = Setting(True, FLAG, "false: ignore documents")
    megabytes = Setting(50, whole(1, 1_000), "maximum document size")


class PlansSettings(Section):
    """Plans of agents."""

    timezone = Setting("UTC", _TIMEZONE, "time zone of plans, such as Europe/Berlin")


class WorldSettings(Section):
    """The example world: places/*.md, and agents/NAME.md with x and y."""

    enabled = Setting(False, FLAG, "true: enable its tools, such as `memvault world observe`")


class Settings(Section):
    """The settings in force.

    ``explicit`` lists the settings that are in ``memvault.toml``, such as ``embedder.model``.
    ``exclusions`` decides which files are not memories, by ``ignore`` and other files in the vault.
    """

    version = Setting(1, _VERSION, "version of this file's format")
    language = Setting("auto", _LANGUAGE, "auto, none, or a language such as german")
    encoding = Setting("auto", _ENCODING, "encoding of files that are not UTF-8, such as gbk")
    ignore: Setting[tuple[str, ...]] = Setting(
        (), _PATTERNS, "patterns of files that are not memories", ["drafts/**"]
    )
    receipts = Setting(True, FLAG, "record what agents are given, for `memvault receipt`")
    cites = Setting(True, FLAG, "record and check the code that memories mention")
    embedder = EmbedderSettings()
    ranking = RankingSettings()
    rerank = RerankSettings()
    daily = DailySettings()
    active = ActiveSettings()
    mcp = McpSettings()
    secrets = SecretSettings()
    history = HistorySettings()
    git = GitSettings()
    index = EngineSettings()
    documents = DocumentSettings()
    plans = PlansSettings()
    world = WorldSettings()
    searches: Setting[dict[str, dict[str, Any]]] = Setting({}, _SEARCHES)
    types = Setting(BUILTIN_TYPES, _TYPES, "Additional memory types", [_OWN_TYPE])
    exclusions: Exclusions = Exclusions(Path(os.devnull))
    explicit: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def detector(self) -> SecretDetector:
        """The secret detector for this vault's content."""
        from memvault.secrets.detector import detector_named

        return detector_named(self.secrets.detector)


DEFAULTS = Settings()


def load_settings(root: Path) -> Settings:
    """Load ``memvault.toml``.

    Raises:
        VaultUnreadable: the file cannot be read, or a setting is invalid.
    """
    path = root / SETTINGS_FILE
    settings, explicit, unknown = table.load(path, DEFAULTS, VaultUnreadable)
    if "index.token" in unknown:
        raise VaultUnreadable(
            f"{path}: index.token must be in MEMVAULT_MILVUS_TOKEN, never in this file, which "
            "others may read",
            "delete the line",
        )
    if settings.index.engine == "local":  # A local index is not uploaded, so ignore `sent`.
        settings = settings.replace(index=settings.index.replace(sent=""))
    warnings = []
    if settings.version != 1:
        warnings.append(f"{SETTINGS_FILE} has a newer version than this memvault supports")
    warnings += [
        f"{SETTINGS_FILE}: unknown setting {name!r} is ignored" for name in unknown[:_MAX_WARNED]
    ]
    if len(unknown) > _MAX_WARNED:
        rest_count = len(unknown) - _MAX_WARNED
        warnings.append(f"{SETTINGS_FILE}: {rest_count:,} more settings are unknown")
    return settings.replace(
        exclusions=Exclusions(root, settings.ignore), explicit=explicit, warnings=tuple(warnings)
    )
