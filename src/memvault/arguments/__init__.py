"""Derive checked arguments from a function's signature.

``parameters`` converts a signature and its annotations to a list of ``Parameter`` and a JSON
schema; ``binding`` validates the arguments of a call against it, accepting a fixed list of lenient
forms, and reads arguments from files, standard input and JSON.
"""
