"""Time limits for an engine client: per call, and per view."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from memvault.errors import MemvaultError
from memvault.index.milvus.engine_errors import EngineRefused, EngineUnavailable
from memvault.index.protocol import StaleView

_PATIENT_SECONDS = 60.0
"""Time limit of each call, in seconds, during an upload that the user started."""


class Deadlines:
    """The time limits of a client's calls.

    A call may take ``seconds``. A refresh and all searches in its view may take ``seconds`` in
    total, counting only the time spent in calls.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._view_seconds = seconds
        self._view_end = 0.0
        self._is_patient = False
        self._view_error: MemvaultError | None = None

    def next_end(self) -> float:
        """Return the monotonic time at which a call that begins now must end."""
        now = time.monotonic()
        if self._is_patient:
            return now + _PATIENT_SECONDS
        return self._view_end or now + self._seconds

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Allow a minute per call, because the user waits for the upload to be complete."""
        before, self._is_patient = self._is_patient, True
        try:
            yield
        finally:
            self._is_patient = before

    @contextlib.contextmanager
    def refresh(self) -> Iterator[None]:
        """Run a refresh, which begins a new view.

        Raises:
            EngineUnavailable: if the engine did not respond to a search in the last view.
            EngineRefused: if the engine refused that search.
        """
        self._view_seconds = self._seconds
        error, self._view_error = self._view_error, None
        if error is not None:
            raise error
        with self._limited():
            yield

    @contextlib.contextmanager
    def search(self) -> Iterator[None]:
        """Run a search in the current view.

        Raises:
            StaleView: if the engine does not respond or refuses; the next refresh raises the
                reason.
        """
        try:
            with self._limited():
                yield
        except (EngineUnavailable, EngineRefused) as error:
            self._view_error = error
            raise StaleView(error) from error

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        self._view_end = time.monotonic() + self._view_seconds
        try:
            yield
        finally:
            self._view_seconds = max(0.0, self._view_end - time.monotonic())
            self._view_end = 0.0
