"""Validate results of built-in tools against their declared types, in all tests.

The declared schemas allow additional keys, because later versions may add some; here an undeclared
key is a failure. ``install`` is called in the tests' own processes and in those forked by a
launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from memvault.arguments.result_schema import result_schema
from memvault.call import Call
from memvault.tools.core import invoke
from memvault.tools.core.invoke import ToolOutcome
from memvault.tools.core.registry import Tool


def violations(tool: Tool, result: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each difference between a result and its tool's type."""
    validator = _validator(tool.result_type)
    return [
        f"{tool.name}: {error.json_path}: {error.message}"
        for error in validator.iter_errors(result)
    ]


@cache
def _validator(result_type: Any) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(closed(result_schema(result_type)))


def closed(schema: Any) -> Any:
    """Return a schema that allows no undeclared keys."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    is_record = parts.get("type") == "object" and "properties" in parts
    return {**parts, "additionalProperties": False} if is_record else parts


def install(report: Callable[[str], None]) -> None:
    """Start validating each result of a built-in tool, and report violations."""
    run = invoke._run

    def validated(call_context: Call, tool: Tool, *more: Any) -> ToolOutcome:
        outcome = run(call_context, tool, *more)
        if tool.own_parameters is None:
            for violation in violations(tool, outcome.result):
                report(violation)
        return outcome

    invoke._run = validated  # type: ignore[assignment]


def fail(violation: str) -> None:
    """Fail with a violation.

    Raises:
        AssertionError: always.
    """
    raise AssertionError(violation)
