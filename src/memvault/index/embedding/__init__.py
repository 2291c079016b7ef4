"""Texts to vectors: the built-in table, models that a person chose, and what cosines mean."""
