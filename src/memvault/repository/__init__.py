"""Find the git repository that contains a vault, and run git in it.

``location`` finds and reads a repository without git, ``approval`` lists the parts of it that can
make git run programs, ``approved`` opens a repository that the user has approved, and ``program``
runs git in it. ``submodules`` finds nested repositories. ``dates`` reads when git's commits changed
each file. ``code_check`` checks the code that memories cite: ``code_mentions`` finds it in a text,
``definitions`` in a file, and ``code_history`` in git.
"""
