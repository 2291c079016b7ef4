"""The index on this machine, in a folder below the user's cache directory.

``local_index`` refreshes the index and returns a ``snapshot`` of one commit. ``folder_diff``
compares the vault's folder with the ``manifest``, and ``index_writer`` writes the differences;
``file_analysis`` computes the rows, using several processes (``analysis_pool``) for many files.
``overlay`` reads files that cannot be indexed at the moment. ``index_files`` opens, locks and
replaces the index's files, and ``backend`` defines where the keyword index and static vectors are
stored.

``static_vectors`` computes the static vectors, ``transformer_model`` chooses the transformer,
``transformer_vectors`` searches its vectors, and ``transformer_writer`` adds vectors in the order
of ``embedding_schedule``. ``index_status`` describes the state of the index and both embedders.
"""
