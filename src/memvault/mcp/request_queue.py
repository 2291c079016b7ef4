"""A fair request queue: slots for running requests, and requests that wait for a slot."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from memvault.mcp.fair_shares import FairShares
from memvault.named_tuple import NamedTuple
from memvault.serial_executor import SerialExecutor

Answer = TypeVar("Answer")
QUEUE_SLOT = "memvault.queue_slot"
"""The key of the ASGI scope for a request's queue slot."""


class QueueSlot:
    """A slot taken by a request, with a reference count; the last holder frees it."""

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
        """Pass the slot to the next request, even if some holders have not left."""
        if self._holders:
            self._holders = 0
            self._release()


class _Turn(NamedTuple):
    """A waiting request: its future slot, and whether it is known to be cheap."""

    slot: asyncio.Future[QueueSlot]
    is_cheap: bool


class RequestQueue:
    """Slots for at most ``each`` running requests of one key and ``total`` of all keys.

    Requests of one key are served in order of arrival. A free slot goes to the key that has used
    the least of its share; keys with equal usage take turns. While a key is alone, its cheap
    requests may have all slots. At most ``waiting`` requests of one key wait. Queues with the same
    ``shares`` count usage together. It may be used only in the event loop's thread.
    """

    def __init__(
        self,
        each: float = math.inf,
        total: float = math.inf,
        waiting: float = math.inf,
        shares: FairShares | None = None,
    ) -> None:
        self._per_key, self._total, self._max_waiting = each, total, waiting
        self._shares = shares or FairShares()
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[_Turn]] = {}

    @property
    def size(self) -> int:
        """The number of requests that have a slot or wait for one."""
        return self._taken.total() + sum(map(len, self._waiting.values()))

    def take_free(self, key: Hashable, is_cheap: bool = False) -> QueueSlot | None:
        """Return a slot if one is free for the key, or else None, without waiting."""
        if not self._has_free_slot(key, is_cheap):
            return None
        self._shares.enter(key)
        return self._take(key)

    def is_full(self, key: Hashable) -> bool:
        """Return whether no more requests of a key may wait."""
        return len(self._waiting.get(key, ())) >= self._max_waiting

    async def take(self, key: Hashable, is_cheap: bool = False) -> QueueSlot:
        """Wait for a slot and return it; a canceled request leaves the queue."""
        slot = self.take_free(key, is_cheap)
        if slot is not None:
            return slot
        turn = _Turn(asyncio.get_running_loop().create_future(), is_cheap)
        self._waiting.setdefault(key, deque()).append(turn)
        self._shares.enter(key)
        try:
            return await turn.slot
        except BaseException:
            if turn.slot.done() and not turn.slot.cancelled():
                turn.slot.result().leave()
            else:
                self._remove_waiting(key, turn)
            raise

    def charge(self, key: Hashable, seconds: float) -> None:
        """Charge CPU time in seconds to a key."""
        self._shares.charge(key, seconds)

    def _remove_waiting(self, key: Hashable, turn: _Turn) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None and turn in waiting:
            waiting.remove(turn)
            self._shares.leave(key)
            if not waiting:
                del self._waiting[key]

    def _has_free_slot(self, key: Hashable, is_cheap: bool) -> bool:
        if self._taken.total() >= self._total:
            return False
        return self._taken[key] < self._per_key or (is_cheap and self._shares.is_alone(key))

    def _take(self, key: Hashable) -> QueueSlot:
        self._taken[key] += 1
        return QueueSlot(partial(self._release, key))

    def _release(self, key: Hashable) -> None:
        self._taken[key] -= 1
        self._shares.leave(key)
        if not self._taken[key]:
            del self._taken[key]
        while ready := self._ready():
            next_key = min(ready, key=self._shares.used)
            waiting = self._waiting.pop(next_key)
            turn = waiting.popleft()
            if waiting:
                self._waiting[next_key] = waiting  # move it behind the other keys
            if turn.slot.cancelled():
                self._shares.leave(next_key)
            else:
                turn.slot.set_result(self._take(next_key))

    def _ready(self) -> list[Hashable]:
        """Return the keys whose next request may have a slot now."""
        if self._taken.total() >= self._total:
            return []
        return [
            key
            for key, turns in self._waiting.items()
            if self._has_free_slot(key, turns[0].is_cheap)
        ]


async def take_all(
    queue: RequestQueue, key: Hashable, request: QueueSlot | None, is_cheap: bool = False
) -> list[QueueSlot]:
    """Wait for a slot; return it and the request's slot, which is held until its work finishes."""
    slots = [request] if request is not None and request.hold() else []
    try:
        return [*slots, await queue.take(key, is_cheap)]
    except BaseException:
        for slot in slots:
            slot.leave()
        raise


async def run_with_slots(
    work: Callable[[], Answer],
    executor: SerialExecutor,
    slots: Sequence[QueueSlot],
    charge: Callable[[float], None],
    on_wait: Callable[[], None] | None = None,
) -> Answer:
    """Run work in an executor, and release its slots when it finishes.

    Before that, ``charge`` is called on the event loop with the CPU time used, in seconds. When the
    work begins to wait, it calls ``on_wait`` in its thread, if set, and frees the last slot. A
    canceled task does not wait for the thread, but the slots stay taken until the work finishes.
    Work that has not started when the task is canceled never runs.
    """
    loop, context = asyncio.get_running_loop(), copy_context()

    def call_on_loop(function: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # The loop has stopped.
            loop.call_soon_threadsafe(function, *arguments)

    def run() -> Answer:
        begun = time.thread_time()
        try:
            return context.run(work)
        finally:
            call_on_loop(charge, time.thread_time() - begun)

    def release_slots(_: Future[Answer]) -> None:
        for slot in slots:
            call_on_loop(slot.leave)

    def pass_on() -> None:
        if on_wait is not None:
            on_wait()
            call_on_loop(slots[-1].free)

    try:
        future = executor.submit(run, pass_on)
    except BaseException:
        for slot in slots:
            slot.leave()
        raise
    future.add_done_callback(release_slots)
    return await asyncio.wrap_future(future)
