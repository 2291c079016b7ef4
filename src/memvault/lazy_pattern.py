"""Compile regular expressions when they are first used."""

from __future__ import annotations

import re
from typing import Any, cast


class LazyPattern:
    """A proxy for a compiled pattern, with its methods and attributes.

    Most commands use few of the patterns in the modules that they load, and compiling all of them
    takes longer than loading the modules. ``isinstance`` and the functions of ``re`` require a real
    pattern.
    """

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, and cache it on this object."""
        # ``re`` caches compiled patterns.
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a proxy for ``re.compile``; an invalid pattern raises ``re.error`` when first used."""
    return cast("re.Pattern[str]", LazyPattern(pattern, flags))
