"""Recall: find the memories that answer a question.

``recall_engine`` refreshes the index, and retries when a view turns out to be stale. ``search``
runs the stages over one view: ``query`` and ``dates`` parse, ``retrieve`` finds candidates,
``features`` computes a row for each from the sentence data of the index, ``ranking`` scores rows,
``validity`` reorders, and the files of the memories that are shown are read and cut by
``snippets``. ``resolve`` finds a memory by its name.
"""
