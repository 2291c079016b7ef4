"""Serve a vault's tools and memories to the MCP client of one agent.

``server`` handles the protocol's requests with the SDK's low-level server. ``profiles`` selects the
tools to list and shortens their schemas, which ``tools.core.reference`` makes; ``sdk_types``,
``resources`` and ``prompts`` build answers in the SDK's types; ``calls`` runs tools in threads and
reports their progress; ``notifications`` sends changes and log messages; ``request_queue``
schedules requests by each caller's usage, which ``fair_shares`` records; ``read_runner`` runs
read-only calls; ``stdio`` is the transport over standard input and output. The MCP SDK is an
optional dependency: only ``memvault.server``, which serves over HTTP, and the commands
``memvault mcp`` and ``memvault serve`` import this package.
"""
