"""Access the file system safely with concurrent processes and in untrusted folders.

``atomic`` creates and replaces files, with their ``attributes`` and through ``temporary_files``;
``target`` does so outside of vaults. ``lock`` holds locks, ``plain_files`` reads bounded regular
files and JSON without following links and detects changed ones, ``walk`` lists folders of any
depth, and ``user_folders`` finds the user's cache, state and configuration.
"""
