"""Derived from the files and never trusted over them: terms, passages, vectors, what is indexed."""
