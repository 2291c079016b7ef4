"""The index on this machine, in a folder below the user's cache directory.

``local_index`` refreshes the index and returns a ``snapshot`` of one commit. ``refresh`` compares
the vault's folder with the ``manifest`` and writes the differences. ``file_analysis`` computes what
is written, for many files in the processes of ``analysis_pool``. ``keyword`` searches files that
Whoosh writes (``whoosh_codec``) and ``packed_segment`` reads, ``static_vectors`` and
``transformer_vectors`` hold embeddings, and ``index_files`` opens, locks and replaces the files of
all of them.
"""
