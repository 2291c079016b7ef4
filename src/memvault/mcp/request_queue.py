"""Who is served next: places for requests, and the requests that wait for one."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from functools import partial
from itertools import islice
from typing import TypeVar

import anyio
import anyio.to_thread

Answer = TypeVar("Answer")
QUEUE_SLOT = "memvault.place"
"""Where the scope of an HTTP request keeps its place in the queue."""


class QueueSlot:
    """A place that was taken: free again once everybody who holds it has left."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._holders = 1

    def hold(self) -> bool:
        """Hold it too, so that it is free only once this holder has left; not once it is free."""
        if not self._holders:
            return False
        self._holders += 1
        return True

    def leave(self) -> None:
        """Leave it."""
        if self._holders == 1:
            self.free()
        elif self._holders:
            self._holders -= 1

    def free(self) -> None:
        """Give it to the next, whoever still holds it."""
        if self._holders:
            self._holders = 0
            self._release()


class RequestQueue:
    """Places for a number of requests, ``each`` of one key and ``total`` of all.

    Requests of one key get theirs first come, first served, and a free place goes to one key
    after the other. At most ``waiting`` of one key wait. For the event loop's thread alone.
    """

    def __init__(
        self, each: float = math.inf, total: float = math.inf, waiting: float = math.inf
    ) -> None:
        self._each, self._total, self._most = each, total, waiting
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[QueueSlot]]] = {}

    @property
    def size(self) -> int:
        """How many requests have a place or wait for one."""
        return self._taken.total() + sum(map(len, self._waiting.values()))

    def take_free(self, key: Hashable) -> QueueSlot | None:
        """Take a place if one is free; those who wait have none."""
        return self._take(key) if self._has_room(key) else None

    def is_full(self, key: Hashable) -> bool:
        """Say whether no more requests of a key may wait."""
        return len(self._waiting.get(key, ())) >= self._most

    async def take(self, key: Hashable) -> QueueSlot:
        """Wait for a place; who is cancelled meanwhile waits no longer."""
        free = self.take_free(key)
        if free is not None:
            return free
        turn: asyncio.Future[QueueSlot] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            return await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                turn.result().leave()
            else:
                self._forget(key, turn)
            raise

    def _forget(self, key: Hashable, turn: asyncio.Future[QueueSlot]) -> None:
        own = self._waiting.get(key)
        if own is not None and turn in own:
            own.remove(turn)
            if not own:
                del self._waiting[key]

    def _has_room(self, key: Hashable) -> bool:
        return self._taken[key] < self._each and self._taken.total() < self._total

    def _take(self, key: Hashable) -> QueueSlot:
        self._taken[key] += 1
        return QueueSlot(partial(self._release, key))

    def _release(self, key: Hashable) -> None:
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        while ready := [*islice(filter(self._has_room, self._waiting), 1)]:
            (following,) = ready
            own = self._waiting.pop(following)
            turn = own.popleft()
            if own:
                self._waiting[following] = own  # behind the other keys
            if not turn.cancelled():
                turn.set_result(self._take(following))


async def in_thread(
    work: Callable[[], Answer], limiter: anyio.CapacityLimiter, *places: QueueSlot
) -> Answer:
    """Run work in a thread; who is cancelled does not wait for its end, but the places do.

    Work that has not begun by then never does.
    """
    loop = asyncio.get_running_loop()
    deciding = threading.Lock()
    begun, dropped = False, False

    def leave() -> None:
        for place in places:
            place.leave()

    def run() -> Answer:
        nonlocal begun
        with deciding:
            if dropped:
                raise RuntimeError("nobody waits for this")
            begun = True
        try:
            return work()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(leave)

    try:
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
    except BaseException:
        with deciding:
            dropped = not begun
        if dropped:
            leave()
        raise
