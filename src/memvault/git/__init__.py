"""Git support for vaults: a merge driver, commits, and a sync that writes no conflict markers.

``sync`` merges the remote branch outside the working tree: ``tree_merge`` follows memories by id,
``merge`` merges each by text and ``header_merge`` by header key, ``objects`` reads and writes
git's trees; ``checkout`` replaces the files. ``driver`` offers the same merge of memories to
``git pull``. ``setup`` asks for approval of git, which ``repository`` checks; ``status`` reports
the repository's state, ``conflict_pairs`` the memories that exist twice. ``project`` describes a
project's repository without its settings.
"""
