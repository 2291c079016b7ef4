"""Serve a vault to an editor over the Language Server Protocol.

``server`` runs the protocol and passes each request to a function of another module: ``completion``
completes names, tags and headers; ``navigation`` finds what a link leads to and what links there;
``edits`` computes renames and code actions; ``diagnostics`` runs the doctor's checks on one text.
``documents`` finds the vault of an open file, whose unsaved text replaces its file, and
``positions`` converts positions. The server writes nothing into a vault: it returns edits, which
the editor applies. pygls is an optional dependency: only the command ``memvault lsp`` imports this
package.
"""
