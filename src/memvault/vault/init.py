"""Create a vault."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from memvault.errors import Conflict, UsageError
from memvault.files import atomic
from memvault.files.user_folders import SETTINGS_FILE, expand_home
from memvault.model import is_example
from memvault.settings.vault_settings import load_settings
from memvault.vault.front_matter import split_front_matter
from memvault.vault.header_yaml import parse_header
from memvault.vault.scan import scan

_PACKAGED = Path(__file__).resolve().parents[1] / "data" / "template"
_CHECKOUT = Path(__file__).resolve().parents[3] / "vault-template"
TEMPLATE = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
_MINIMAL = """\
# Settings for this vault; memvault's docs/guide/settings.md lists all of them.
version = 1
"""


def init_vault(folder: str, bare: bool, examples: bool) -> dict[str, Any]:
    """Create a vault: copy the template to an empty folder, or only add a settings file.

    Only a settings file is added if ``bare`` is true or the folder contains files. The template's
    example memories are copied only if ``examples`` is true.

    Raises:
        Conflict: the folder is already a vault.
        UsageError: the path is not a folder, or examples cannot be added to it.
    """
    root = expand_home(folder)
    if "\0" in folder or (root.exists() and not root.is_dir()):
        raise UsageError(f"{folder!r} is not a folder", "pass a new or existing folder")
    if os.path.lexists(root / SETTINGS_FILE):
        raise Conflict(
            f"{root} is already a vault", f"run `memvault --vault {root} status` to see its state"
        )
    with atomic.map_os_errors(root):
        atomic.make_folders(root)
        entries = set(os.listdir(root)) - {".git"}
    created = []
    if examples and (bare or entries):
        raise UsageError(
            "The examples are part of the full template, which needs an empty or new folder",
            "`memvault init --examples FOLDER`",
        )
    if bare or entries:
        atomic.create(root / SETTINGS_FILE, _MINIMAL.encode())
        created.append(SETTINGS_FILE)
    else:
        # Write the settings file last: until it exists, the folder is not a vault.
        paths = sorted(
            path
            for path in TEMPLATE.rglob("*")
            if path.is_file() and (examples or not _is_example(path))
        )
        for path in sorted(paths, key=lambda path: path.name == SETTINGS_FILE):
            name = path.relative_to(TEMPLATE).as_posix()
            atomic.create(root / name, path.read_bytes())
            created.append(name)
    scanned = scan(root, load_settings(root).exclusions)
    root = root.resolve()
    outer = next((path for path in root.parents if (path / SETTINGS_FILE).is_file()), None)
    note = f"the folder is inside the vault {outer}, which also covers it"
    return {
        "vault": str(root),
        "created": created,
        "memories": len(scanned) if entries else 0,
        **({"excluded": sorted(scanned.excluded)} if entries and scanned.excluded else {}),
        **({"warnings": [note]} if outer else {}),
    }


def _is_example(path: Path) -> bool:
    if path.suffix != ".md":
        return False
    return is_example(parse_header(split_front_matter(path.read_text("utf-8")).header))
