"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from typing import Any, cast


class LazyPattern:
    """Stands for a compiled pattern, and has its methods and attributes.

    Most commands use few of the patterns in the modules that they load, and compiling all of them
    takes longer than loading these. ``isinstance`` and the functions of ``re`` need a pattern
    itself.
    """

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, and keep it, so that this is called once."""
        value = getattr(re.compile(self.pattern, self._flags), name)  # re caches compiled patterns
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what ``re.compile`` does; an invalid pattern raises ``re.error`` when first used."""
    return cast("re.Pattern[str]", LazyPattern(pattern, flags))
