"""A fair request queue: slots for running requests, and the requests that wait for one."""

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
"""The key of an HTTP request's ASGI scope that holds its queue slot."""


class QueueSlot:
    """A slot taken by a request, with a reference count; it is free when every holder has left."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._holders = 1

    def hold(self) -> bool:
        """Add a holder; return False if the slot is already free."""
        if not self._holders:
            return False
        self._holders += 1
        return True

    def leave(self) -> None:
        """Remove a holder; the last one frees the slot."""
        if self._holders == 1:
            self.free()
        elif self._holders:
            self._holders -= 1

    def free(self) -> None:
        """Pass the slot to the next request, even if it still has holders."""
        if self._holders:
            self._holders = 0
            self._release()


class RequestQueue:
    """Slots for at most ``each`` running requests of one key and ``total`` of all keys.

    Requests of one key are served in order of arrival, and free slots go to the keys in turn. At
    most ``waiting`` requests of one key wait. To be used by the event loop's thread only.
    """

    def __init__(
        self, each: float = math.inf, total: float = math.inf, waiting: float = math.inf
    ) -> None:
        self._per_key, self._total, self._max_waiting = each, total, waiting
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[QueueSlot]]] = {}

    @property
    def size(self) -> int:
        """The number of requests that have a slot or wait for one."""
        return self._taken.total() + sum(map(len, self._waiting.values()))

    def take_free(self, key: Hashable) -> QueueSlot | None:
        """Return a slot if one is free for the key, or else None, without waiting."""
        return self._take(key) if self._has_free_slot(key) else None

    def is_full(self, key: Hashable) -> bool:
        """Return whether no more requests of a key may wait."""
        return len(self._waiting.get(key, ())) >= self._max_waiting

    async def take(self, key: Hashable) -> QueueSlot:
        """Wait for a slot and return it; a cancelled request leaves the queue."""
        slot = self.take_free(key)
        if slot is not None:
            return slot
        turn: asyncio.Future[QueueSlot] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            return await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                turn.result().leave()
            else:
                self._remove_waiting(key, turn)
            raise

    def _remove_waiting(self, key: Hashable, turn: asyncio.Future[QueueSlot]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None and turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[key]

    def _has_free_slot(self, key: Hashable) -> bool:
        return self._taken[key] < self._per_key and self._taken.total() < self._total

    def _take(self, key: Hashable) -> QueueSlot:
        self._taken[key] += 1
        return QueueSlot(partial(self._release, key))

    def _release(self, key: Hashable) -> None:
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        while ready := [*islice(filter(self._has_free_slot, self._waiting), 1)]:
            (next_key,) = ready
            waiting = self._waiting.pop(next_key)
            turn = waiting.popleft()
            if waiting:
                self._waiting[next_key] = waiting  # after the other keys
            if not turn.cancelled():
                turn.set_result(self._take(next_key))


async def take_all(
    queue: RequestQueue, key: Hashable, request: QueueSlot | None
) -> list[QueueSlot]:
    """Wait for a slot; return it and that of the request, which counts until its work has ended."""
    slots = [request] if request is not None and request.hold() else []
    try:
        return [*slots, await queue.take(key)]
    except BaseException:
        for slot in slots:
            slot.leave()
        raise


async def in_thread(
    work: Callable[[], Answer], limiter: anyio.CapacityLimiter, *slots: QueueSlot
) -> Answer:
    """Run work in a thread, and release the given slots when it has ended.

    If the task is cancelled it does not wait for the thread, but the slots stay taken until the
    work ends. Work that has not started by then never starts.
    """
    loop = asyncio.get_running_loop()
    start_lock = threading.Lock()
    started, dropped = False, False

    def release_slots() -> None:
        for slot in slots:
            slot.leave()

    def run() -> Answer:
        nonlocal started
        with start_lock:
            if dropped:
                raise RuntimeError("nobody waits for this")
            started = True
        try:
            return work()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(release_slots)

    try:
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter)
    except BaseException:
        with start_lock:
            dropped = not started
        if dropped:
            release_slots()
        raise
