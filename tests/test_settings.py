"""An invalid setting is reported in one sentence; an unknown one is ignored."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Literal

import platformdirs
import pytest

from conftest import ROOT, Run, write
from memvault import open_vault
from memvault.errors import VaultUnreadable
from memvault.files.user_folders import user_folder
from memvault.settings.table import Section
from memvault.settings.vault_settings import (
    BUILTIN_TYPES,
    DEFAULTS,
    GitSettings,
    HistorySettings,
    WorldSettings,
    load_settings,
)

WEIGHTS = {
    "recency": ("-0.1", "1.5", "7", "nan", "inf", "-inf"),
    "importance": ('"much"', "true", "[0.1]", "2020-01-01"),
}
WRONG = [
    *(
        (f"[ranking]\n{key} = {value}", f"ranking.{key} must be a number from 0 to 1")
        for key, values in WEIGHTS.items()
        for value in values
    ),
    *(
        (f"[ranking]\ndiversity = {value}", "ranking.diversity must be true or false")
        for value in ("2", '"no"', "[]")
    ),
    ("ranking = 3", "ranking must be a [ranking] table"),
    ("[[ranking]]\ndate = 0.1", "ranking must be a [ranking] table"),
    ("[ranking.date]\nweight = 1", "ranking.date must be a number"),
    (f"[ranking]\ndate = {'9' * 5_000}", "is not valid TOML"),
    (f"[ranking]\ndate = 0x{'f' * 5_000}", "memvault.toml"),
    ("world = 1", "world must be a [world] table"),
    ("[world]\nenabled = 1", "world.enabled must be true or false"),
    ('[world]\nenabled = "yes"', "world.enabled must be true or false"),
    ("[rerank]\nmodel = 3", "memvault.toml: rerank.model must be a model's name or folder"),
    ('[embedder]\ndeep = "later"', "embedder.deep must be auto, off or now"),
    ('[secrets]\non_write = "maybe"', "warn, refuse or off"),
    ('[mcp]\nbudget = "much"', "mcp.budget must be a whole number, at least 0"),
    ("[active]\nbudget = 0", "active.budget must be a whole number, at least 1"),
    (
        "[history]\ndays = 0",
        "history.days must be a whole number, at least 1 and at most 1,000,000",
    ),
    *((f"[history]\nrevisions = {value}", "history.revisions") for value in ("0", "-1", "true")),
    *(
        (f'[plans]\ntimezone = "{name}"', "plans.timezone must be a name such as")
        for name in ("Mars/Phobos", "Europe", "../etc/passwd", "x" * 300, "\\u0000")
    ),
    ('[plans]\ntimezone = ""', "plans.timezone"),
    ('[index]\ntoken = "abc"', "MEMVAULT_MILVUS_TOKEN"),
    ('[index]\nengine = "other"', "local or milvus"),
    ('[index]\ncollection = "a b"', "letters, digits and underscores"),
    ('[index]\nvault = "A/B"', "set by `memvault index push`"),
    ("[index]\npatience = 0", "seconds, from 1 to 600"),
]


@pytest.mark.promise("S17")
@pytest.mark.parametrize(("text", "said"), WRONG, ids=lambda text: text[:40])
def test_settings_invalid_value_is_refused(folder: Path, run: Run, text: str, said: str) -> None:
    """A value of the wrong type or size is reported by name in one sentence, with exit code 3."""
    write(folder, "memvault.toml", f"{text}\n")
    ran = run("list")
    assert (ran.code, ran.out) == (3, "")
    first, *rest = ran.err.splitlines()
    assert first.startswith("error: ")
    assert said in first
    assert "memvault.toml" in first
    assert len(first) < 500
    assert rest
    assert all(line.startswith("hint: ") for line in rest)
    with open_vault(folder) as vault:
        assert vault.call("memory_recall", query="word")["error"]["code"] == "vault_unreadable"


def rows(section: Section, prefix: str = "") -> Iterator[str]:
    """Return the names of all settings."""
    for key, row in section.rows().items():
        if isinstance(row, Section):
            yield from rows(row, f"{key}.")
        else:
            yield prefix + key


@pytest.mark.parametrize("name", [name for name in rows(DEFAULTS) if name != "version"])
def test_settings_errors_state_the_expected_type(tmp_path: Path, name: str) -> None:
    """No setting accepts a list of lists, and each error states the expected type."""
    write(tmp_path, "memvault.toml", f"{name} = [[1]]\n")
    with pytest.raises(VaultUnreadable, match=f"{name} must be ."):
        load_settings(tmp_path)


def test_settings_template_shows_valid_defaults(tmp_path: Path) -> None:
    """Each setting shown as a comment in a new vault's file is known, valid and the default."""
    text = (ROOT / "vault-template" / "memvault.toml").read_text("utf-8")
    assert tomllib.loads(text)["version"] == 1
    write(tmp_path, "memvault.toml", re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE))
    settings = load_settings(tmp_path)
    assert settings.warnings == ()
    assert settings.explicit == set(rows(DEFAULTS)) - {
        "index.vault", "index.sent", "mcp.tools", "searches", "daily.heading"
    }  # fmt: skip
    for name in settings.explicit - {"ignore", "index.uri", "types"}:
        assert attrgetter(name)(settings) == attrgetter(name)(DEFAULTS), name
    assert [entry.name for entry in settings.types if entry not in BUILTIN_TYPES] == [
        "meeting-note"
    ]


def test_settings_compare_by_value() -> None:
    """Equal settings compare equal, however they were created; an unknown name is an error."""
    history = DEFAULTS.history
    assert history.replace(days=7) == HistorySettings(days=7, revisions=50) != history
    assert DEFAULTS.replace(history=HistorySettings()) == DEFAULTS
    assert DEFAULTS.replace(warnings=("a warning",)) != DEFAULTS
    assert GitSettings() != WorldSettings()
    for section, name in ((history, "revisons"), (history, "rows"), (DEFAULTS, "nonsense")):
        with pytest.raises(TypeError, match=f"{type(section).__name__} has no setting {name}"):
            section.replace(**{name: 3})


def test_settings_unknown_name_is_a_warning(folder: Path, run: Run) -> None:
    """A setting from a later version or with a typo causes a warning and changes nothing."""
    write(folder, "a.md", "# Word\n")
    before = run("recall", "word", "--explain", "--json").json["memories"]
    for text, name in (
        ("[ranking]\nrecencey = 0.5\ndate = 0.15", "ranking.recencey"),
        ("[rerank]\nmodle = 'x'", "rerank.modle"),
        ("[song]\nbird = 1", "song"),
    ):
        write(folder, "memvault.toml", f"version = 1\n{text}\n")
        ran = run("recall", "word", "--explain", "--json")
        assert ran.code == 0
        assert ran.json["memories"] == before
        assert [line for line in ran.json["warnings"] if f"unknown setting '{name}'" in line]


@pytest.mark.promise("S48")
def test_settings_many_unknown_names_are_counted(folder: Path, run: Run) -> None:
    """Of thousands of unknown settings, the first few are listed and the rest counted."""
    write(folder, "memvault.toml", "".join(f"a{number} = 1\n" for number in range(3_000)))
    warnings = run("list", "--json").json["warnings"]
    assert len(warnings) == 11
    assert "2,990 more" in warnings[-1]


HOMES: tuple[dict[str, str], ...] = (
    {},
    {"HOME": "/home/x"},
    {"HOME": "/"},
    {"HOME": "//x/"},
    {"HOME": "x"},
    {"HOME": ""},
)


@pytest.mark.parametrize("home", HOMES, ids=repr)
@pytest.mark.parametrize("kind", ["cache", "config", "state"])
@pytest.mark.parametrize("given", [None, "", "/xdg", "/xdg//y/", "~/xdg", "xdg", " /xdg"])
def test_settings_user_folders_equal_platformdirs(
    monkeypatch: pytest.MonkeyPatch,
    home: dict[str, str],
    kind: Literal["cache", "config", "state"],
    given: str | None,
) -> None:
    """User data folders follow the standard of the operating system."""
    monkeypatch.delenv(f"MEMVAULT_{kind.upper()}", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv(f"XDG_{kind.upper()}_HOME", raising=False)
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    if given is not None:
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", given)
    try:
        expected = Path(getattr(platformdirs, f"user_{kind}_dir")("memvault", appauthor=False))
    except RuntimeError:
        assert user_folder(kind) is None
    else:
        assert user_folder(kind) == (expected if expected.is_absolute() else None)
