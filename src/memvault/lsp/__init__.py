"""Serve a vault to an editor over the Language Server Protocol.

``server`` runs the protocol and passes each request to a function of another module: ``completion``
completes names, tags and headers; ``navigation`` resolves links and finds backlinks;
``edits`` computes renames and code actions; ``diagnostics`` runs the doctor's checks on one text.
``documents`` finds the vault of an open file and uses the file's unsaved text, and
``positions`` converts positions. The server writes nothing into a vault: it returns edits, which
the editor applies. pygls is an optional dependency: only the command ``memvault lsp`` imports this
package.
"""
