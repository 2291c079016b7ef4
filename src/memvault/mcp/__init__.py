"""The MCP server: a vault's tools and memories over standard input and output, or over HTTP.

The only home of the MCP SDK, an optional dependency; nothing but the commands
``memvault mcp`` and ``memvault serve`` imports it. ``profiles`` says which tools
are offered; ``answers``, ``texts``, ``resources``, ``prompts`` and ``completion`` turn
what the vault holds into the SDK's types; ``calls`` runs tools in threads; ``changes``,
``progress`` and ``telling`` tell a client what it did not ask for; ``wire`` is the
transport, ``request_queue`` says whose turn it is, and ``serving`` puts them together.
Over HTTP ``door`` lets a request in, ``rooms`` holds what each token has of each vault,
``audit`` notes who asked for what, and ``over_http`` listens and ends.
"""
