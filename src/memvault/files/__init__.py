"""Access the file system safely with concurrent processes and in untrusted folders.

``atomic`` creates and replaces files, ``target`` writes files outside of vaults, ``lock`` locks
files between processes, ``plain_files`` reads regular files and JSON of limited size without
following links and detects changed ones, ``walk`` lists folders of any depth, and ``user_folders``
finds the user's cache, state and configuration folders.
"""
