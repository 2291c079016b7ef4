"""Divide CPU time fairly between the keys of request queues, such as a server's tokens.

A free slot goes to the key that has used the least CPU time. Heavy calls are recognized by the cost
of recent calls, so that they can run separately.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable

from memvault.tools.core import registry

_ALONE_AFTER = 60.0
"""Seconds for which a key counts as active after its last request."""
_HEAVY_WEIGHT = 2.0
"""The factor applied to the CPU time that is charged for a heavy call."""
_MIN_HEAVY, _MUCH_MORE, _ALWAYS_HEAVY = 0.15, 3.0, 2.0
"""A call is heavy if it uses at least ``_MIN_HEAVY`` seconds of CPU time and ``_MUCH_MORE`` times
as much as other calls, or at least ``_ALWAYS_HEAVY`` seconds.
"""
_SMOOTHING = 0.2
"""The weight of the newest call in the mean cost of a key's calls."""
_FORGOTTEN = 1.05
"""The factor by which a tool's recorded minimum cost grows with each call, so that it adapts."""
_CALLS = 2
"""Number of consecutive heavy calls required, because a single call may have had to index first."""
_MAX_KNOWN = 10_000
"""Maximum number of pairs of a key and a tool whose costs are stored."""


class FairShares:
    """The CPU time that each key has used, in seconds.

    It may be used only in the event loop's thread. A key that returns after a while starts at the
    lowest usage of the active keys, so unused shares do not accumulate.
    """

    def __init__(self) -> None:
        self._used: dict[Hashable, float] = {}
        self._active: Counter[Hashable] = Counter()
        self._left: dict[Hashable, float] = {}
        self._floor = 0.0

    def enter(self, key: Hashable) -> None:
        """Count a request of a key, waiting or running."""
        if not self._active[key]:
            least = min((self._used[other] for other in +self._active), default=self._floor)
            self._floor = max(self._floor, least)
            self._used[key] = max(self._used.get(key, 0.0), self._floor)
            self._left.pop(key, None)
        self._active[key] += 1

    def leave(self, key: Hashable) -> None:
        """Stop counting a request of a key."""
        self._active[key] -= 1
        if self._active[key]:
            return
        del self._active[key]
        now = time.monotonic()
        self._left[key] = now
        for other in [name for name, left_at in self._left.items() if now - left_at > _ALONE_AFTER]:
            del self._left[other]
            if self._used[other] <= self._floor:  # If the key returns, treat it as new.
                del self._used[other]

    def charge(self, key: Hashable, seconds: float) -> None:
        """Charge a key for the CPU time of a request in seconds, even if the key has left."""
        self._used[key] = self._used.get(key, self._floor) + seconds
        if key not in self._active:
            self._left.setdefault(key, time.monotonic())

    def used(self, key: Hashable) -> float:
        """Return the CPU time that a key has used, in seconds."""
        return self._used.get(key, self._floor)

    def is_alone(self, key: Hashable) -> bool:
        """Return whether no other key has a request, or had one within the last minute."""
        now = time.monotonic()
        return not (self._active.keys() - {key}) and all(
            other == key or now - left_at > _ALONE_AFTER for other, left_at in self._left.items()
        )


class CallCosts:
    """The costs of the latest calls of each key and tool, in seconds of CPU time."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[Hashable, str], deque[float]] = OrderedDict()
        self._cheapest: dict[str, float] = {}
        self._means: dict[Hashable, tuple[float, float]] = {}
        """The mean CPU time of each key's calls in seconds, and the time of the last call."""

    def note(self, key: Hashable, tool: str, seconds: float) -> None:
        """Record the cost of a call."""
        recent = self._recent.pop((key, tool), None) or deque[float](maxlen=_CALLS)
        recent.append(seconds)
        self._recent[key, tool] = recent
        if len(self._recent) > _MAX_KNOWN:
            self._recent.popitem(last=False)
        self._cheapest[tool] = min(seconds, self._cheapest.get(tool, seconds) * _FORGOTTEN)
        now = time.monotonic()
        mean, _ = self._means.get(key, (seconds, now))
        self._means[key] = mean + _SMOOTHING * (seconds - mean), now
        for other in [name for name, (_, at) in self._means.items() if now - at > _ALONE_AFTER]:
            del self._means[other]

    def is_heavy(self, key: Hashable, tool: str) -> bool:
        """Return whether the next call is heavy: its tool takes long, or its last calls were heavy.

        The last calls are compared with the tool's cheapest call and other keys' usual call.
        """
        definition = registry.lookup(tool)
        if definition is not None and definition.takes_long:
            return True
        recent = self._recent.get((key, tool), ())
        if len(recent) < _CALLS:
            return False
        usual = [self._cheapest[tool]]
        if others := sorted(mean for name, (mean, _) in self._means.items() if name != key):
            usual.append(others[(len(others) - 1) // 2])
        limit = max(_MIN_HEAVY, _MUCH_MORE * min(usual))
        return min(recent) > min(limit, _ALWAYS_HEAVY)

    def is_cheap(self, key: Hashable, tool: str) -> bool:
        """Return whether the next call is known to be cheap."""
        return (key, tool) in self._recent and not self.is_heavy(key, tool)

    def weighted(self, key: Hashable, tool: str, seconds: float) -> float:
        """Return the weighted CPU time of a call in seconds."""
        return seconds * (_HEAVY_WEIGHT if self.is_heavy(key, tool) else 1.0)
