"""Git support for vaults: a merge driver, commits, and a sync that writes no conflict markers.

``sync`` replays local commits onto the remote branch outside the working tree
(``tree_merge``), merges each memory by header key and text (``merge``), and only
then changes files. ``driver`` offers the same merge to ``git pull``.
"""
