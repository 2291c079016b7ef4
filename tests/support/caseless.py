"""Emulate a case-insensitive file system in this process."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path
from typing import Any


def ignore_case(root: Path) -> None:  # noqa: C901  # what is wrapped is told in one place
    """Make the file functions accept any spelling of a name below a folder.

    A new file keeps the spelling it was created with; a rename can change it.
    """
    listdir, lexists = os.listdir, os.lstat

    def is_there(path: str) -> bool:
        try:
            lexists(path)
        except OSError:
            return False
        return True

    def spelled(path: Any) -> Any:
        """Return a path with each part below the folder in its stored spelling."""
        if isinstance(path, int):
            return path
        text = os.path.abspath(os.fsdecode(path))
        if not text.startswith(f"{root}/"):
            return path
        found = str(root)
        for part in Path(text).relative_to(root).parts:
            if not is_there(f"{found}/{part}"):
                try:
                    names = {name.casefold(): name for name in listdir(found)}
                except OSError:
                    names = {}
                part = names.get(part.casefold(), part)
            found = f"{found}/{part}"
        return found

    def one(real: Any) -> Any:
        return lambda path, *rest, **more: real(spelled(path), *rest, **more)

    def two(real: Any) -> Any:
        return lambda old, new, *rest, **more: real(spelled(old), spelled(new), *rest, **more)

    def renamed(real: Any) -> Any:
        def rename(old: Any, new: Any, *rest: Any, **more: Any) -> Any:
            source, target = spelled(old), spelled(new)
            if source == target:  # The rename only changes the spelling.
                target = str(Path(target).with_name(Path(os.fsdecode(new)).name))
            return real(source, target, *rest, **more)

        return rename

    os.link = two(os.link)
    for name in ("rename", "replace"):
        setattr(os, name, renamed(getattr(os, name)))
    for name in "stat lstat open unlink remove access mkdir rmdir utime listxattr getxattr".split():
        setattr(os, name, one(getattr(os, name)))
    io.open = builtins.open = one(builtins.open)
