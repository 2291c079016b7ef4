"""From a function's signature to checked arguments.

``parameters`` reads a signature and its notes into a list of ``Parameter`` and a JSON schema;
``binding`` validates the arguments of a call against it, with one table of accepted variations.
"""
