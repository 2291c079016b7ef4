"""Find the vault that a command is for, and check whether it may be used."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from memvault import sanitize
from memvault.errors import UsageError, VaultNotFound, VaultUnreadable, suggestion
from memvault.files.user_folders import SETTINGS_FILE, expand_home, ownership_problem

ALL, THIS = "all", "this"
"""Reserved names for all named vaults and for the current vault."""


def find_vault(vault: str | None, on_default: Callable[[str, Path], object] | None = None) -> Path:
    """Return the vault's root: ``vault``, ``MEMVAULT_VAULT``, or the nearest parent folder.

    ``vault`` is a folder or a name that the user gave to a vault. If a linked git worktree lacks
    the vault because git does not track it, the vault in the main worktree is used. With
    ``on_default``, the first of the user's default vaults is used outside any vault; the
    function is called with its name and root.

    A vault found in a parent folder that belongs to another user is used only if this user trusts
    it, because its ``memvault.toml`` determines which files are read and run here.

    Raises:
        VaultNotFound: there is no vault.
        VaultUnreadable: the vault cannot be read, or belongs to another user and is not trusted.
    """
    with _readable():
        named = vault or os.environ.get("MEMVAULT_VAULT")
        if named:
            return _resolve_vault(named)
        nearest = _nearest_vault(_working_directory())
        if nearest is not None:
            return nearest
        hint = (
            "run `memvault init` to make this folder a vault, pass `--vault DIR`, or set a "
            "default vault with `memvault vaults default NAME`"
        )
        if on_default is not None:
            if (default := _default_vault()) is not None:
                on_default(*default)
                return default[1]
            hint = _with_names(hint)
        raise VaultNotFound(f"No {SETTINGS_FILE} in {_working_directory()} or above it", hint)


def vault_above(folder: Path) -> Path | None:
    """Return the root of the nearest vault that contains a folder, or None.

    Raises:
        VaultUnreadable: the vault belongs to another user and is not trusted.
    """
    with _readable():
        return _nearest_vault(folder)


def _default_vault() -> tuple[str, Path] | None:
    """Return the name and root of the user's first default vault, or None.

    Raises:
        VaultNotFound: the vault no longer exists.
    """
    from memvault.settings import user_settings

    vaults = user_settings.load().vaults
    names = (*vaults.names,) if ALL in vaults.default else vaults.default
    name = next((name for name in names if name in vaults.names), None)
    return None if name is None else (name, _resolve_vault(vaults.names[name]))


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VaultUnreadable(
            f"{error.filename} cannot be read: {error.strerror}",
            "check its permissions" if isinstance(error, PermissionError) else "check the path",
        ) from error


def _resolve_vault(text: str) -> Path:
    root = expand_home(text)
    if not (root / SETTINGS_FILE).is_file():
        names = _named_vaults()
        if text in names:
            root = Path(text := names[text])
        elif (elsewhere := _in_worktrees(root)) is not None:
            return elsewhere
    if root.is_file():
        raise VaultNotFound(f"{text} is a file", "pass the folder that contains it")
    if not root.is_dir():
        hint = f"create a vault there with `memvault init {sanitize.quote_argument(text)}`"
        hint = hint if root.is_absolute() else suggestion(text, names, _with_names(hint))
        raise VaultNotFound(f"There is no folder {text}", hint)
    if not (root / SETTINGS_FILE).is_file():
        raise VaultNotFound(
            f"{text} is not a vault: it has no {SETTINGS_FILE}",
            f"make it a vault with `memvault init {sanitize.quote_argument(text)}`, which "
            "does not change existing files",
        )
    return root.resolve()


def _named_vaults() -> Mapping[str, str]:
    from memvault.settings import user_settings

    return user_settings.load().vaults.names


def _with_names(hint: str) -> str:
    """Return a hint with the names of the user's vaults, if there are any."""
    names = ", ".join(_named_vaults())
    return f"{hint}; named vaults: {names}" if names else hint


def vault_named(name: str) -> Path:
    """Return the root of a vault with a name given by the user.

    Raises:
        VaultNotFound: no vault has the name, or its folder is no longer a vault.
        VaultUnreadable: the vault cannot be read.
    """
    vaults = _named_vaults()
    if name not in vaults:
        raise _no_vault(name, vaults, None)
    with _readable():
        return _resolve_vault(vaults[name])


def reachable_vaults(reach: Sequence[str] | None) -> dict[str, Path]:
    """Return the folders of the named vaults that a caller may access, by name."""
    return {
        name: Path(folder)
        for name, folder in _named_vaults().items()
        if reach is None or name in reach
    }


def select_vaults(
    names: Sequence[str], here: Path, reach: Sequence[str] | None = None
) -> dict[str, Path]:
    """Return the folders of the vaults with the given names, without checking that they exist.

    ``all`` means every named vault, and ``this`` means the vault at ``here``. Without names, the
    vault at ``here`` and the user's default vaults are selected, or no vaults if no defaults are
    set. Vaults outside a caller's ``reach`` are reported as missing.

    Raises:
        VaultNotFound: the caller cannot access a vault with one of the names.
    """
    from memvault.settings import user_settings

    default = user_settings.load().vaults.default
    if not (names or default):
        return {}
    vaults = reachable_vaults(reach)
    own_name = next((name for name, folder in vaults.items() if folder == here), THIS)
    selected: list[tuple[str, Path]] = []
    for name in names or (THIS, *default) * bool(default):
        if name == ALL:
            selected += [(own_name, here)] if own_name != THIS or not vaults else []
            selected += vaults.items()
        elif name in (THIS, own_name):
            selected.append((own_name, here))
        elif name in vaults:
            selected.append((name, vaults[name]))
        elif names:
            raise _no_vault(name, vaults, reach)
    folders: dict[str, Path] = {}
    for name, folder in selected:  # Search a vault with two names only once.
        if folder not in folders.values():
            folders[name] = folder
    return folders


def _no_vault(name: str, vault_names: Iterable[str], reach: Sequence[str] | None) -> VaultNotFound:
    known = [*vault_names]
    names = ", ".join(known)
    if reach is not None:
        hint = f"this server serves {names}" if names else "this server serves no other vault"
        return VaultNotFound(f"There is no vault {name!r} here", suggestion(name, known, hint))
    hint = f"named vaults: {names}" if names else "name a vault with `memvault vaults add NAME DIR`"
    return VaultNotFound(f"There is no vault named {name!r}", suggestion(name, known, hint))


def _nearest_vault(here: Path) -> Path | None:
    for folder in (here, *here.parents):
        if _is_vault(folder):
            return _require_trusted(folder)
        if (twin := _main_twin(here, folder)) is not None:
            main_top, main_here = twin
            for candidate in (main_here, *main_here.parents):
                if _is_vault(candidate):
                    return _require_trusted(candidate)
                if candidate == main_top:
                    break
    return None


def _in_worktrees(folder: Path) -> Path | None:
    """Return the vault that a missing folder refers to in a git worktree, or None.

    A relative path is looked up from the working directory upward to the top of the worktree, and
    then in the main worktree. So a command with the path works in every folder and worktree.

    Raises:
        VaultUnreadable: others can write to the vault, and it is not trusted.
    """
    here = _working_directory()
    path = here / folder
    top = next((top for top in path.parents if os.path.lexists(top / ".git")), None)
    if top is None or ".." in folder.parts or not folder.parts:
        return None
    bases = [path]
    if not folder.is_absolute():
        bases = [base / folder for base in (here, *here.parents) if base.is_relative_to(top)]
    for base in bases:
        if _is_vault(base):
            return _require_trusted(base.resolve())
    for base in bases:
        twin = _main_twin(base, top)
        if twin is not None and _is_vault(twin[1]):
            return _require_trusted(twin[1].resolve())
    return None


def _main_twin(path: Path, top: Path) -> tuple[Path, Path] | None:
    """Return the top of the main worktree, and the path there that corresponds to ``path``.

    Returns None if ``top`` is not the top of a linked worktree.
    """
    if not (top / ".git").is_file():
        return None
    from memvault.files import git_location

    location = git_location.linked_worktree(top)
    main = git_location.main_worktree(location) if location is not None else None
    return (main.top, main.top / path.relative_to(top)) if main is not None else None


def _is_vault(folder: Path) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(folder / SETTINGS_FILE).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _require_trusted(folder: Path) -> Path:
    """Return a vault; raise ``VaultUnreadable`` if others can write there and it is not trusted."""
    if (why := ownership_problem(folder)) and not _is_trusted(folder):
        raise VaultUnreadable(
            f"The vault {folder} {why}",
            "if you trust everyone who writes there, run `memvault vaults trust "
            f"{sanitize.quote_argument(str(folder))}`, or pass `--vault` to use it once",
        )
    return folder


def _is_trusted(folder: Path) -> bool:
    from memvault.settings import user_settings

    return str(folder) in user_settings.load().vaults.trusted


def _working_directory() -> Path:
    try:
        return Path.cwd().resolve()
    except OSError as error:
        raise UsageError(
            "The current folder no longer exists", "cd to an existing folder"
        ) from error
