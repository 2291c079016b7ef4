"""A fictional coding week of an agent, as episode files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from conftest import write
from memvault import clock
from memvault.experience.episodes import body_of

OK = {"type": "action_result", "text": "done"}
ERROR = {"type": "action_error", "text": "it failed"}
RELEASE = ["Run the unit tests", "Build the wheel", "Tag the release", "Push the tag"]
DEBUG = ["Reproduce the bug with a failing test", "Fix the code", "Run the unit tests"]

WEEK: list[dict[str, Any]] = [
    {
        "name": "release-one",
        "context": ["Release of version 2.1 was due", "The staging database is PostgreSQL"],
        "actions": ["Read the changelog", *RELEASE, "Announce it"],
        "outcomes": [OK, OK],
        "skills": ["git.release"],
        "reflection": "The integration tests need the Docker daemon. It went smoothly.",
    },
    {
        "name": "release-two",
        "context": ["A hotfix for the login page"],
        "actions": [*RELEASE, "Close the ticket"],
        "outcomes": [OK, OK],
        "skills": ["git.release"],
        "reflection": "Lesson: integration tests require the Docker daemon!",
    },
    {
        "name": "release-three",
        "context": ["Release of version 2.2"],
        "actions": ["run unit tests.", "build wheel", "Tag the release", "Push the tag"],
        "outcomes": [OK, ERROR],
        "skills": ["git.release"],
        "reflection": "The API limit is 100 requests per minute.",
    },
    {
        "name": "login-bug",
        "context": ["Users were logged out at random", "The staging database is PostgreSQL."],
        "actions": [*DEBUG, "Write a changelog entry"],
        "outcomes": [OK],
        "skills": [],
        "reflection": "Never edit the lock file by hand. The API limit is 100 requests per minute",
    },
    {
        "name": "cache-bug",
        "context": ["The cache returned old prices"],
        "actions": ["Look at the logs", *DEBUG],
        "outcomes": [OK, OK, OK],
        "skills": [],
        "reflection": "Do not edit the lock file by hand!\nAn API limit of 60 was mentioned.",
    },
    {
        "name": "timeouts",
        "context": ["The nightly job timed out"],
        "actions": ["Restart the worker", "Raise the timeout"],
        "outcomes": [ERROR, ERROR],
        "skills": [],
        "reflection": "The API limit is 60 requests per minute. What else could it be?",
    },
    {
        "name": "timeouts-again",
        "context": ["The nightly job timed out again, on another machine"],
        "actions": ["Restart the worker", "Raise the timeout", "Ask Ana"],
        "outcomes": [ERROR],
        "skills": [],
        "reflection": "Restarting hides the cause.",
    },
]

UNRELATED: list[dict[str, Any]] = [
    {
        "name": "gardening",
        "context": ["Tomatoes were planted on the balcony", "It rained for two days"],
        "actions": ["Buy soil", "Plant tomatoes", "Water them"],
        "outcomes": [OK],
        "skills": ["garden.plants"],
        "reflection": "Tomatoes want six hours of sun. Soil from the market is cheap.",
    },
    {
        "name": "invoices",
        "context": ["Three invoices were overdue", "The bank changed its form"],
        "actions": ["Open the ledger", "Write to the customers", "Wait a week"],
        "outcomes": [OK],
        "skills": ["office.books"],
        "reflection": "Customers in Bonn pay after the second letter. Call before writing.",
    },
    {
        "name": "parser",
        "context": ["The parser dropped the last line of a file"],
        "actions": ["Write a failing test", "Read the grammar", "Fix the end of file rule"],
        "outcomes": [OK],
        "skills": ["code.parsing"],
        "reflection": "A file need not end with a line feed. Ports 8080 and 8081 are taken.",
    },
    {
        "name": "moving",
        "context": ["The office moved to the third floor", "Ports 9090 and 9091 are taken"],
        "actions": ["Pack the screens", "Label the cables", "Plug everything in"],
        "outcomes": [OK, OK],
        "skills": [],
        "reflection": "Label the cables before pulling them. The third floor is warm in summer.",
    },
]


def put(
    root: Path,
    name: str,
    context: Sequence[str] = (),
    actions: Sequence[str] = (),
    outcomes: Sequence[dict[str, Any]] = (OK,),
    skills: Sequence[str] = (),
    reflection: str = "",
    days: float = 1,
    importance: float = 0.5,
    kind: str = "episode",
    header: str = "",
) -> str:
    """Write an episode from ``days`` ago as a file; return its memId."""
    stamp = clock.iso(datetime.now(UTC) - timedelta(days=days))
    used = f"skills_used: [{', '.join(skills)}]\n" if skills else ""
    body = body_of(context, actions, outcomes, reflection)
    write(
        root,
        f"{kind}/{name}.md",
        f"---\nid: {name}-id\nmemory_type: {kind}\nimportance: {importance}\n{used}{header}"
        f"created: {stamp}\nmodified: {stamp}\n---\n\n{body}\n",
    )
    return f"{name}-id"


def put_all(root: Path, episodes: Sequence[dict[str, Any]]) -> None:
    """Write several episodes."""
    for episode in episodes:
        put(root, **episode)
