"""An inbox that delivers due plans before each read."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memvault import clock
from memvault.agents.messages.inbox import Inbox
from memvault.agents.messages.service_names import PLAN
from memvault.agents.plans.agent_plans import AgentPlans


class PlannedInbox(Inbox):
    """An agent's inbox that delivers due plans before each read, under one lock."""

    def __init__(self, plans: AgentPlans) -> None:
        super().__init__(plans.store.root, plans.address)
        self._plans = plans

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[str]]:
        """Hold the agent's lock after delivering due plans; if a delivery fails, pop nothing."""

        def deliver(name: str, at: datetime, data: dict[str, Any]) -> None:
            self.deliver(PLAN, data, name, clock.iso(at))

        with super().locked() as notes:
            notes += self._plans.fire(deliver)
            yield notes

    def next_due(self) -> float:
        """Return the seconds until the next plan is due; infinity if there is none."""
        at = self._plans.next_due()
        return (at - self._plans.now()).total_seconds() if at else math.inf
