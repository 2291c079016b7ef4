"""Access the file system safely despite concurrent processes and untrusted folders.

``atomic`` creates and replaces files, with their ``attributes`` and through ``temporary_files``;
``target`` does so outside vaults. ``lock`` locks files between processes, ``plain_files`` reads
regular files and JSON of limited size without following links, and detects changes, ``walk`` lists
folders of any depth, and ``user_folders`` finds the user's cache, state and configuration.
"""
