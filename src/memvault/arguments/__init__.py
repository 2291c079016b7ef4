"""From a function's signature to checked arguments.

``parameters`` reads a signature and its annotations into a list of ``Parameter`` and a JSON schema;
``binding`` validates the arguments of a call against it, with one list of accepted variations, and
reads arguments from files, standard input and JSON.
"""
