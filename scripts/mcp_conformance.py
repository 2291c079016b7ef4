"""Serve a small vault over HTTP, for the protocol's conformance suite; nothing else uses it.

    python scripts/mcp_conformance.py PORT
    npx @modelcontextprotocol/conformance server --url http://127.0.0.1:PORT/mcp --suite all

The suite uses its own names for tools, prompts and resources, which are mapped to memvault's
equivalents if there are any. One client is served at a time.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from memvault import open_vault
from memvault.call import Caller
from memvault.mcp import calls
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.request_queue import QUEUE_SLOT, QueueSlot
from memvault.mcp.server import McpServer
from memvault.workspace import Workspace

# Each unknown setting causes a note and therefore a log message.
SETTINGS = "version = 1\nfirst = 1\nsecond = 2\nthird = 3\n"
WAIT = {"events": [{"eventType": "Time", "parameter": 3}]}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "test_simple_text": ("memory_list_types", {}),
    "test_error_handling": ("memory_show", {"memId": "nothing"}),
    "test_tool_with_logging": ("memory_list", {}),
    "test_tool_with_progress": ("wait_for", WAIT),
}
RESOURCES = {
    "test://static-text": "memvault://memory/static-text",
    "test://watched-resource": "memvault://memory/static-text",
    "test://template/123/data": "memvault://tag/123",
}


def ours(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return a request's parameters with the suite's names replaced by memvault's."""
    if method == "tools/call" and params.get("name") in TOOLS:
        name, arguments = TOOLS[params["name"]]
        return {**params, "name": name, "arguments": arguments}
    if params.get("uri") in RESOURCES:
        return {**params, "uri": RESOURCES[params["uri"]]}
    if method == "prompts/get" and params.get("name") == "test_simple_prompt":
        return {**params, "name": "wrap-up"}
    if method == "prompts/get" and params.get("name") == "test_prompt_with_arguments":
        given = params["arguments"]
        return {
            **params,
            "name": "recall-first",
            "arguments": {"task": given["arg1"], "tag": given["arg2"]},
        }
    if method == "completion/complete":
        ref = {"type": "ref/prompt", "name": "recall-first"}
        return {**params, "ref": ref, "argument": {"name": "tag", "value": "1"}}
    return params


async def renamed(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Forward a request with memvault's names."""
    params = dict(ctx.params or {})
    return await call_next(dataclasses.replace(ctx, params=ours(ctx.method, params)))


def main(port: str) -> None:
    """Serve until stopped by a signal."""
    calls.SILENCE = 0.5  # the suite waits only a few seconds
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "memvault.toml").write_text(SETTINGS)
        (root / "a.md").write_text("---\nid: static-text\ntags: ['123']\n---\n\n# Note 123\n")
        with open_vault(root) as vault:
            vault.call("memory_list")
        caller = Caller(may_run_programs=False, may_see_paths=False)
        server = McpServer(Workspace(root), caller, ToolSelection("all")).server
        server.middleware.append(renamed)
        app = server.streamable_http_app()

        async def accepted(scope: Any, receive: Any, send: Any) -> None:
            """Serve a request with the entries that ``memvault serve`` adds to its scope."""
            if scope["type"] == "http":
                scope[QUEUE_SLOT] = QueueSlot(lambda: None)
                scope[calls.REPLIES] = calls.ReplyTracker()
            await app(scope, receive, send)

        uvicorn.run(accepted, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
