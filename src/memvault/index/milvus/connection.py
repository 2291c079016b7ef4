"""One connection to Milvus: how long its calls may take, and what happens where they fail."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from memvault.index.errors import LostIndex
from memvault.index.milvus.where import (
    CollectionMissing,
    EngineAddress,
    EngineRefused,
    EngineUnavailable,
    map_error,
)

Value = TypeVar("Value")

_NOISY = ("pymilvus", "milvus_lite", "grpc", "grpc._server")
_PATIENT = 60.0
"""Seconds that a call may take for whoever waits for the whole to be sent."""
_PAUSE = 0.1
"""Seconds before a call is made once more; each pause is twice the last."""
_UNLOADED = ("not loaded", "released")


class Connection:
    """A connection, opened when first needed; who only reads ``makes`` nothing there.

    Raises:
        EngineAway: it does not answer in time.
        EngineRefused: the token is not good, or the collections are another program's.
    """

    def __init__(self, where: EngineAddress, makes: bool = True) -> None:
        self.where = where
        self._makes = makes
        self._client: Any = None
        self._of_view = where.patience
        self._view_ends = 0.0
        self._is_patient = False
        self._ready: set[str] = set()

    def begin_view(self) -> None:
        """Give what is asked for the next view its seconds."""
        self._of_view = self.where.patience

    @contextlib.contextmanager
    def patiently(self) -> Iterator[None]:
        """Give each call a minute, once it answers: whoever asked waits for the whole."""
        name = self.where.collection
        self._asked(lambda client, left: client.has_collection(name, timeout=left))
        self._is_patient = True
        try:
            yield
        finally:
            self._is_patient = False

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Ask for a view or its look, within the seconds that they have left together."""
        self._view_ends = time.monotonic() + self._of_view
        try:
            yield
        finally:
            self._of_view = max(0.0, self._view_ends - time.monotonic())
            self._view_ends = 0.0

    @contextlib.contextmanager
    def viewing(self) -> Iterator[None]:
        """Ask for a view, within its seconds.

        Raises:
            LostIndex: the engine does not answer, or refuses; so that there is another look.
        """
        try:
            with self.timed():
                yield
        except (EngineUnavailable, EngineRefused) as error:
            raise LostIndex(error) from error

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            with contextlib.suppress(Exception):  # it ends all the same
                self._client.close()
        self._client = None
        self._ready.clear()

    def _asked(self, ask: Callable[[Any, float], Value]) -> Value:
        """Make a call, with the seconds that it may take; where the engine is away, again."""
        now = time.monotonic()
        usual = self._view_ends or now + self.where.patience
        ends, pause = now + _PATIENT if self._is_patient else usual, _PAUSE
        while True:
            left = max(_PAUSE, ends - time.monotonic())
            try:
                return ask(self._opened(left), left)
            except Exception as error:
                mapped, told = map_error(error, self.where), str(error)
                if mapped is None:
                    raise
                over = time.monotonic() + pause >= ends
                if over or not isinstance(mapped, EngineUnavailable):
                    self.close()
                    raise mapped from error
            time.sleep(pause)
            pause *= 2
            if any(word in told for word in _UNLOADED):
                self._load_again(ends)

    def _load_again(self, ends: float) -> None:
        """Load the collections anew: an engine that was started again may have let go of them."""
        for name in self._ready:
            left = max(_PAUSE, ends - time.monotonic())
            with contextlib.suppress(Exception):  # the call that needs it says what is wrong
                self._opened(left).load_collection(name, timeout=left)

    def _opened(self, seconds: float) -> Any:
        if self._client is None:
            is_file = "://" not in self.where.uri
            if is_file and not self._makes and not Path(self.where.uri).exists():
                raise CollectionMissing(f"file {self.where.uri}")
            from pymilvus import MilvusClient

            for noisy in _NOISY:  # what they say, we say
                logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)
            self._client = MilvusClient(
                self.where.uri, token=self.where.token, timeout=seconds, dedicated=True
            )
        return self._client
