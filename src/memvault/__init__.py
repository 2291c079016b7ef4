"""memvault: a memory shared by people and their agents.

``open_vault`` opens the library: the same tools as the command line, with the same arguments and
results, in a process that keeps its caches. ``AsyncVault`` is the same for asyncio.
``memvault.results`` contains the types of the results, and ``memvault.errors`` the exceptions.
"""

from __future__ import annotations

TYPE_CHECKING = False  # like ``typing.TYPE_CHECKING``, without the 5 ms that typing takes to load
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from memvault import errors, results
    from memvault.errors import MemvaultError
    from memvault.library.async_vault import AsyncVault
    from memvault.library.vault import Vault

__all__ = [
    "AsyncVault",
    "MemvaultError",
    "Vault",
    "__version__",
    "errors",
    "open_vault",
    "results",
]

__version__ = "0.1.0"

_HOMES = {
    "AsyncVault": "library.async_vault",
    "MemvaultError": "errors",
    "Vault": "library.vault",
    "errors": "",
    "results": "",
}
"""The module of each public name, imported on first use."""


if not TYPE_CHECKING:  # Hidden from type checkers, which then report unknown names.

    def __getattr__(name: str) -> Any:
        """Import a public name."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if not _HOMES[name]:
            return import_module(f"{__name__}.{name}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def open_vault(path: str | PathLike[str] | None = None, agent: str | None = None) -> Vault:
    """Open a vault by its folder, or find it as the command line does.

    Raises:
        memvault.errors.VaultNotFound: there is none.
    """
    from memvault.library.vault import Vault

    return Vault(path, agent)
