"""The search index of a vault, derived from its files and never authoritative over them.

``protocol`` defines the view: what recall asks of an index. ``local`` implements it with Whoosh for
terms, flat files of vectors, and SQLite for the manifest, which records what is indexed and in
which state of its file. There are two kinds of vectors: static vectors are computed with the index,
transformer vectors in the background; the latter are stored by the content that was embedded, so
that they outlive the index (``local.static_vectors``, ``local.transformer_vectors``;
``vectors.nearest`` combines them).

Refresh: a scan lists the folder without opening a file, and ``local.folder_diff`` compares size,
times and inode with the manifest. A file edited less than a second before the previous scan is
doubtful: a second edit could have left the same times, so its bytes are compared. If the bytes are
the same, a memory keeps its uid, terms and vectors.

Commit: first the keyword index, beside that of the last commit, then the manifest, which includes
the states of the keyword index's files, then the vectors, whose card names their files. An index
whose files differ from the manifest is rebuilt; if vectors have wrong checksums, only the vectors
of that kind are rebuilt. No memory is changed.

If another process holds the index's lock, or nothing can be written, the changed files are read
into an overlay, which is searched together with the last valid index. If many files have changed
and another process is indexing them, a refresh waits on the lock for as long as the caller's
``WaitPolicy`` allows; afterwards the snapshot leaves out the memories that were changed first, and
counts them.
"""
