"""Generate the library's methods, one per tool, from the tools' signatures."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from memvault.tools.core.registry import BUDGET, Tool, all_tools

_LINE = 100
_SKIPPED = ("call_tool",)
"""Tools whose methods are handwritten: ``call``."""


def vault_source() -> str:
    """Return the source of the module with ``Vault``."""
    imports: dict[str, set[str]] = {}
    methods = "\n\n".join(_method(tool, imports) for tool in _tools())
    return f'''"""The class ``Vault``; written from the tools by ``make docs``; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from memvault.library.calls import OpenVault

if TYPE_CHECKING:
    from memvault import results
{"".join(_import(key, names) for key, names in sorted(imports.items()))}

class Vault(OpenVault):
    """An open vault. Safe to share between threads: calls run one at a time.

    Each method raises ``memvault.MemvaultError`` if the tool fails.
    """

{methods}
'''


def async_vault_source() -> str:
    """Return the source of the module with ``AsyncVault``."""
    names = map(_method_name, _tools())
    methods = "\n".join(f"    {name} = in_thread(Vault.{name})" for name in names)
    return f'''"""The class ``AsyncVault``; written from the tools by ``make docs``; do not edit."""

from __future__ import annotations

from memvault.library.async_calls import AsyncOpenVault, in_thread
from memvault.library.vault import Vault


class AsyncVault(AsyncOpenVault):
    """An open vault for asyncio: the methods of ``Vault``, which run in threads.

    Each method raises ``memvault.MemvaultError`` if the tool fails.
    """

{methods}
'''


def _tools() -> list[Tool]:
    return [tool for tool in all_tools() if tool.name not in _SKIPPED]


def _method_name(tool: Tool) -> str:
    return tool.command.replace(" ", "_").replace("-", "_")


def _import(module: str, names: set[str]) -> str:
    line = f"    from {module} import {', '.join(sorted(names))}\n"
    if len(line) <= _LINE:
        return line
    listed = "".join(f"        {name},\n" for name in sorted(names, key=str.casefold))
    return f"    from {module} import (\n{listed}    )\n"


def _method(tool: Tool, imports: dict[str, set[str]]) -> str:
    """Return a method with the same positional parameters as the command."""
    # Programs do not need to save tokens; ``Vault.call`` still accepts a budget.
    parameters = [entry for entry in tool.parameters if entry != BUDGET]
    positional = [entry for entry in parameters if entry.arg.positional or entry.arg.flatten]
    positional.sort(key=lambda entry: not entry.required)
    named = [entry for entry in parameters if entry not in positional]
    hints = _hints(tool)
    signature = inspect.signature(tool.function).parameters
    given = ["self"]
    for entry in [*positional, None, *named]:
        if entry is None:
            given += ["*"] if named else []
            continue
        if entry in tool.page_parameters:
            given.append(f"{entry.name}: int | None = None")
            continue
        default = signature[entry.name].default
        shown = "" if default is inspect.Parameter.empty else f" = {_default(default)}"
        given.append(f"{entry.name}: {_type(hints[entry.name], imports)}{shown}")
    result = f"results.{tool.result_type.__name__}"
    lines = list(_signature(f"def {_method_name(tool)}", given, result))
    lines += [
        f'    """{tool.summary}."""',
        f'    return cast("{result}", self._run("{tool.name}", locals()))',
    ]
    return "\n".join(f"    {line}" for line in lines)


def _signature(head: str, given: list[str], result: str) -> Iterator[str]:
    """Yield the lines of a signature, broken as a formatter would break them."""
    short = f"{head}({', '.join(given)}) -> {result}:"
    inner = f"    {', '.join(given)}"
    if len(short) <= _LINE - 4:
        yield short
    elif len(inner) <= _LINE - 4:
        yield from (f"{head}(", inner, f") -> {result}:")
    else:
        lines = (line for part in given for line in _parameter(f"    {part},"))
        yield from (f"{head}(", *lines, f") -> {result}:")


def _parameter(line: str) -> Iterator[str]:
    """Yield a parameter's line, broken before the last type of a union and in a long literal."""
    if len(line) <= _LINE - 4:
        yield line
    else:
        types_before, _, last = line.rpartition(" | ")
        head, bracket, choices = types_before.partition("Literal[")
        if len(types_before) > _LINE - 4 and bracket:
            listed = [f"        {choices.removesuffix(']')}"]
            if len(listed[0]) > _LINE - 4:
                listed = [f"        {choice}," for choice in choices.removesuffix("]").split(", ")]
            yield from (f"{head}{bracket}", *listed, "    ]")
        else:
            yield types_before
        yield f"    | {last}"


def _hints(tool: Tool) -> dict[str, Any]:
    function: Any = tool.function
    own = {key: hint for key, hint in function.__annotations__.items() if key != "return"}
    annotated = types.SimpleNamespace(__annotations__=own)
    return typing.get_type_hints(annotated, function.__globals__, include_extras=True)


def _default(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _type(hint: Any, imports: dict[str, set[str]]) -> str:
    """Return a parameter's type as source; a list parameter accepts any sequence."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _type(arguments[0], imports)
    if origin is Literal:
        return f"Literal[{', '.join(map(json.dumps, arguments))}]"
    if hint is type(None):
        return "None"
    if origin in (types.UnionType, typing.Union):
        return " | ".join(_type(part, imports) for part in arguments)
    inner = ", ".join(_type(part, imports) for part in arguments)
    if origin in (list, dict):
        return f"{'Sequence' if origin is list else 'Mapping'}[{inner}]"
    if typing.is_typeddict(hint):
        imports.setdefault(hint.__module__, set()).add(hint.__name__)
    return str(hint.__name__)
