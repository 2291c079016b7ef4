"""The git repository that contains a vault, and running git in it.

``location`` finds and reads a repository without git, ``approval`` lists what it can make git run,
``approved`` opens one that the user has approved, and ``program`` runs git in it. ``submodules``
finds nested repositories. ``dates`` reads when git's commits changed each file.
"""
