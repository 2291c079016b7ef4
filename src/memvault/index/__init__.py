"""What recall asks, derived from the files and never trusted over them.

``protocol`` is what recall may ask of any index. The rest is the local engine:
Whoosh for words, flat vectors, and SQLite for the manifest, which says what is
indexed and in which state of its file. Vectors have two sides: the quick one is
made with the index, the deep one follows behind and is kept by what was embedded
(``quick_side``, ``deep_side``; ``nearest`` brings them together).

A look: ``vault.scan`` lists the folder without opening a file, and
``diff.compare`` compares size, times and inode with the manifest. A file edited
less than a second before it was last looked at is doubtful: a second edit could
hide behind the same times, so its bytes are compared. With the same bytes a
memory keeps its uid, terms and vectors.

A commit: keyword index, manifest, the states of the keyword index's files in
the manifest; then vectors, whose card names theirs. An index whose files are
not as the manifest says is made anew; of vectors with wrong checksums only those
of that side are. No memory is touched.

``local`` is asked, ``writer`` writes under the lock, ``index_files`` opens and
locks. Where another process holds the lock, or nothing can be written,
``overlay`` reads the changed files, which are searched beside the last good
index. If they are many and another process is at them, a look waits for it as
long as the caller's ``Patience`` says, asleep on the lock; then the view leaves
out those that were changed first, and counts them.
"""
