"""Infrastructure of the tools: registry, invocation, shared results and reference pages.

``invoke`` runs every call, and ``redaction`` masks secrets in its result. ``shared_args`` makes and
checks the tokens that confirm a preview. ``reference`` describes a tool with its input and result
schemas. ``similar`` finds memories like a new one.
"""
