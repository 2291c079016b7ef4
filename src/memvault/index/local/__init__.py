"""The index on this machine, below the user's cache folder.

``local_index`` refreshes it and returns a ``snapshot`` of one commit. ``refresh`` compares the
folder with the ``manifest`` and writes what changed; ``keyword`` searches Whoosh's files,
``static_vectors`` and ``transformer_vectors`` hold embeddings, and ``index_files`` opens, locks and
replaces all of them.
"""
