"""The HTTP server for teams.

``gateway`` authenticates, limits and routes requests, ``tenants`` holds one MCP server for each
token and vault, ``http_server`` listens and shuts down, ``audit`` logs who called what, and
``tokens`` stores API tokens as hashes. It imports ``mcp`` and is never imported by it.
"""
