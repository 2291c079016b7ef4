"""The MCP server: a vault's tools and memories over standard input and output.

The only home of the MCP SDK, an optional dependency; nothing but the command
``memvault mcp`` imports it. ``answers`` turns tools and memories into the
SDK's types, ``calls`` runs tools in threads, ``wire`` is the transport, and
``serving`` puts them together.
"""
