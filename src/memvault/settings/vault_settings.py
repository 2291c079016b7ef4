"""The settings of a vault, in ``memvault.toml``: one row for each."""

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
from memvault.settings.exclusions import Exclusions
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
    MemoryType("project-preference", "An agreed way of working in this project"),
    MemoryType("issue", "A problem, its cause, and its workaround or solution"),
    MemoryType("context", "Background information that does not fit another type"),
    MemoryType("recurring-pattern", "A recurring situation and how to handle it"),
    MemoryType("conventions-pattern", "A rule of naming, layout or style"),
    MemoryType("episode", "Something that happened: situation, actions, outcome"),
    MemoryType("fact", "A single statement that holds"),
    MemoryType("procedure", "Step-by-step instructions"),
)
LANGUAGES = (
    "auto arabic danish dutch english finnish french german greek hungarian italian norwegian "
    "portuguese romanian russian spanish swedish tamil turkish none"
).split()


SEARCH_KEYS = frozenset(("query", "memoryType", "tags", "since", "until", "filter"))
"""The keys of a saved search: arguments of ``memory_recall``."""
_MAX_WARNED = 10
_MAX_IGNORE_LENGTH = 10_000
"""Total length of all ``ignore`` patterns; every file of the vault is matched against them."""


def _is_address(value: str) -> bool:
    """Return whether a text is a valid address of an engine.

    User names, passwords and queries are not allowed, since the address is shown and may not hold a
    secret.
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
    "a number from 0 to 10",
    lambda value: type(value) in (int, float) and 0 <= value <= 10,
)
_VERSION = ValueKind("a number", lambda _: True)  # another version only causes a warning
_LANGUAGE = ValueKind(
    f"one of {', '.join(LANGUAGES)}",
    lambda value: isinstance(value, str) and value.lower() in LANGUAGES,
    str.lower,
)
_ENCODING = text("auto, or an encoding such as gbk, shift_jis or cp1251", _is_encoding)
_PATTERNS = texts(
    f"a list of texts, {_MAX_IGNORE_LENGTH:,} characters at most",
    lambda value: sum(map(len, value)) <= _MAX_IGNORE_LENGTH,
)
_ADDRESS = text(
    "an engine's address, as http://localhost:19530, without a name, a password or a query",
    _is_address,
)
_COLLECTION_NAME = lazy_pattern(r"[A-Za-z_]\w{0,99}", re.ASCII)
_VAULT_ID_FORM = lazy_pattern(r"[a-z0-9]{1,32}")
_COLLECTION = text(
    "letters, digits and _, 100 at most, a digit not first",
    lambda value: _COLLECTION_NAME.fullmatch(value) is not None,
)
_VAULT_ID = text(
    "the id that `memvault index push` gave it",
    lambda value: _VAULT_ID_FORM.fullmatch(value) is not None,
)
_SENDER = text("the name of the machine that sends it", str.isprintable)
_SECONDS = ValueKind(
    "seconds, from 1 to 600", lambda value: type(value) in (int, float) and 1 <= value <= 600
)
_TIMEZONE = text("a name such as UTC or Europe/Berlin", _is_timezone)
_TYPES = ValueKind("[[types]] tables, each with a name", _are_types, _with_builtin_types)
_SEARCHES = ValueKind(
    "a [searches] table with a query or a table for each", _are_searches, _with_queries
)
_OWN_TYPE = {"name": "meeting-note", "description": "What was agreed, and who does what"}


class EmbedderSettings(Section):
    """The transformer, used beside the built-in table; ``memvault model use`` changes it."""

    model = Setting("builtin", MODEL, "builtin, multilingual, a fastembed model, or a folder")
    deep = Setting("auto", one_of("auto", "off", "now"), "now: within the call; or off")
    token_megabytes = Setting(500, _SIZE, "vectors of single words; the oldest notes go without")


class RankingSettings(Section):
    """Weights in a memory's score; 0 or false disables one."""

    vectors = Setting(1.0, _FACTOR, "vectors, relative to their fitted weight")
    recency = Setting(0.02, _WEIGHT, "the newer of two equal memories first")
    importance = Setting(0.05, _WEIGHT, "what a memory's header says")
    date = Setting(0.15, _WEIGHT, '"last week" or "in May 2023" in a question')
    diversity = Setting(True, SWITCH, "rank repeats of a better or newer result lower")


class RerankSettings(Section):
    """The cross-encoder of recall --rerank; ``memvault model use`` changes it too."""

    model = Setting("Xenova/ms-marco-MiniLM-L-6-v2", MODEL, "a fastembed model or a folder")


class DailySettings(Section):
    """Daily notes; without these settings as Obsidian or a folder has them."""

    path = Setting(
        "daily/{{date}}.md",
        text("a path ending in .md", _is_note_path),
        "or journal/{{date:YYYY/MM-DD}}.md",
    )
    template = Setting("daily", text("a template's name", str.isprintable), "of a new one")
    heading = Setting(
        "",
        text("a heading", str.isprintable),
        "to add thoughts under, such as ## Log",
    )


class ActiveSettings(Section):
    """An agent's active memory."""

    budget = Setting(8_000, whole(1), "tokens that it holds")


class McpSettings(Section):
    """The MCP server."""

    budget = Setting(
        1_500, whole(0), "tokens of an answer over MCP that names no budget; 0: no limit"
    )
    tools = Setting("", TOOLS, "profiles and tools to offer, as for `memvault mcp --tools`")


class SecretSettings(Section):
    """Keys, tokens and passwords that a tool writes; a header may say ``secrets: allowed``."""

    on_write = Setting("warn", one_of("warn", "refuse", "off"), "or refuse, or off")
    detector = Setting(
        "builtin", one_of("builtin", "kingfisher"), "or kingfisher, with many more patterns"
    )


class HistorySettings(Section):
    """Limits of what is kept."""

    revisions = Setting(50, _LIMIT, "of each memory")
    days = Setting(365, _LIMIT, "at most, and")
    megabytes = Setting(500, _LIMIT, "of all revisions")
    trash_days = Setting(0, whole(0, 1_000_000), "until the trash loses a file; 0: never")


class GitSettings(Section):
    """Git, once ``memvault git init`` was typed on this machine."""

    autocommit = Setting(False, FLAG, "true: one commit for each call that writes")


class EngineSettings(Section):
    """Where the index is kept.

    ``vault`` is the id of this vault in the ``collection``. ``sent`` names the machine that has the
    files, if they are not on this one.
    """

    engine = Setting("local", one_of("local", "milvus"), "or milvus, with the rest")
    uri = Setting("", _ADDRESS, "its address", "http://localhost:19530")
    collection = Setting("memvault", _COLLECTION, "of this and other vaults there")
    vault = Setting("", _VAULT_ID)
    fallback = Setting(False, FLAG, "true: this machine's index answers while it is away")
    patience = Setting(3.0, _SECONDS, "seconds that it has for an answer")
    sent = Setting("", _SENDER)
    characters = Setting(2_000_000, whole(0), "indexed of each memory; 0: all")


class PlansSettings(Section):
    """Plans of agents."""

    timezone = Setting("UTC", _TIMEZONE, "of their cron lines, such as Europe/Berlin")


class WorldSettings(Section):
    """The example world: places/*.md, and agents/NAME.md with x and y."""

    enabled = Setting(False, FLAG, "true: its tools, `memvault world observe` and others")


class Settings(Section):
    """The settings in force; ``explicit`` names those in ``memvault.toml``: ``embedder.model``.

    ``exclusions`` are the files that are not memories, by ``ignore`` and other files of the vault.
    """

    version = Setting(1, _VERSION, "of this file")
    language = Setting("auto", _LANGUAGE, "detected per memory; or one, as german or none")
    encoding = Setting("auto", _ENCODING, "of files that are not UTF-8, such as gbk")
    ignore: Setting[tuple[str, ...]] = Setting(
        (), _PATTERNS, "more files that are not memories", ["drafts/**"]
    )
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
    plans = PlansSettings()
    world = WorldSettings()
    searches: Setting[dict[str, dict[str, Any]]] = Setting({}, _SEARCHES)
    types = Setting(BUILTIN_TYPES, _TYPES, "more than the built-in ones", [_OWN_TYPE])
    exclusions: Exclusions = Exclusions(Path(os.devnull))
    explicit: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def detector(self) -> SecretDetector:
        """The detector of secrets in the texts of this vault."""
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
    if settings.index.engine == "local":  # its files are on this machine
        settings = settings.replace(index=settings.index.replace(sent=""))
    warnings = []
    if settings.version != 1:
        warnings.append(f"{SETTINGS_FILE} is of a version that this memvault does not know")
    warnings += [
        f"{SETTINGS_FILE}: unknown setting {name!r} is ignored" for name in unknown[:_MAX_WARNED]
    ]
    if len(unknown) > _MAX_WARNED:
        rest_count = len(unknown) - _MAX_WARNED
        warnings.append(f"{SETTINGS_FILE}: {rest_count:,} more settings are unknown")
    return settings.replace(
        exclusions=Exclusions(root, settings.ignore), explicit=explicit, warnings=tuple(warnings)
    )
