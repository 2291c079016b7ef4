"""Recall: find the memories that answer a question.

``recall_engine`` refreshes the index, and retries if a view turns out to be stale. ``search`` runs
the stages over one view: ``query`` and ``dates`` parse the question, ``retrieve`` finds candidates,
``features`` computes a feature row for each from indexed sentence data, ``ranking`` scores rows and
moves newer memories up, ``validity`` moves outdated ones down, and ``snippets`` extracts excerpts
from the files of the results. ``answer`` defines a result and its strength (strong, fair, weak).
``name_lookup`` finds a memory by its name, which ``resolve`` compares with all names, and ``dates``
also decides which date is a memory's day.
"""
