"""Git support for vaults: a merge driver, commits, and a sync that writes no conflict markers.

``sync`` merges the remote branch outside the working tree: ``tree_merge`` follows memories
by id, ``merge`` merges each by header key and text, and ``objects`` reads and writes git's
trees; ``checkout`` replaces the files. ``driver`` offers the same merge of
memories to ``git pull``. ``setup`` asks whether git may run at all, which ``repository`` checks.
``project`` says what a project's repository is about, without its settings.
"""
