"""Each tool declares the type of its result, which callers and clients can rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Run, succeeded
from memvault.tools.core.registry import find
from result_types import violations


def test_registered_tool_has_no_result_schema(folder: Path, run: Run) -> None:
    """Only built-in tools declare a result schema, because registered programs print anything."""
    definition = {"name": "hi", "description": "Says hi", "command": "echo hi"}
    succeeded(run("tools", "register", "-", stdin=json.dumps(definition)))
    tools = {
        tool["name"]: tool
        for tool in succeeded(run("tools", "list", "--schema", "--json")).json["tools"]
    }
    assert "outputSchema" not in tools.pop("hi")
    assert all("outputSchema" in tool for tool in tools.values())
    plain = succeeded(run("tools", "list", "--json")).json["tools"]
    assert not any("outputSchema" in tool for tool in plain)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"count": "1"}, "'1' is not of type 'integer'"),
        ({"extra": 1}, "'extra' was unexpected"),
        ({"best": "good"}, "'good' is not one of"),
        ({"memories": [{"memId": "m1"}]}, "'title' is a required property"),
    ],
)
def test_result_type_violations_fail_the_test(change: dict[str, object], problem: str) -> None:
    """A missing, undeclared or wrong key in any result fails the test in which it occurs."""
    result = {"success": True, "memories": [], "count": 0, "best": "none"}
    tool = find("memory_recall")
    assert violations(tool, result) == []
    assert problem in " ".join(violations(tool, {**result, **change}))
