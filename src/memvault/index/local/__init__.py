"""The index on this machine, in a folder below the user's cache directory.

``local_index`` refreshes the index and returns a ``snapshot`` of one commit. ``refresh`` compares
the vault's folder with the ``manifest`` and writes the differences. ``file_analysis`` computes the
rows to write, for many files in the processes of ``analysis_pool``. ``static_vectors`` and
``transformer_vectors`` store embeddings, and ``index_files`` opens, locks and replaces the files.
"""
