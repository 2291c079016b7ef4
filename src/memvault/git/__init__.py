"""Sync vaults with git: merge memories, commit, and push, without writing conflict markers.

``sync`` merges the remote branch outside the working tree: ``tree_merge`` matches memories by id,
``merge`` merges their bodies, ``header_merge`` merges their header keys, ``objects`` reads and
writes git's trees, and ``checkout`` replaces the files. ``driver`` provides the same merge to ``git
pull``. ``setup`` asks the user to approve git, ``status`` reports the repository's state,
``conflict_pairs`` lists memories that exist twice, and ``project`` describes a project's repository
without using its settings.
"""
