"""Share vaults with a team over HTTP.

``gateway`` authenticates, limits and routes requests, ``tenants`` runs one MCP server for each
token and vault, ``http_server`` listens and shuts down, ``audit`` logs which token called which
tool, and ``tokens`` stores API tokens as hashes and verifies them. This package imports ``mcp`` and
is never imported by it.
"""
