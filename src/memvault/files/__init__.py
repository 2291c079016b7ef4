"""Access to the file system that is safe beside other processes and in hostile folders.

``atomic`` creates and replaces files, ``lock`` holds locks, ``plain_files`` reads bounded regular
files without following links, ``walk`` lists folders of any depth, ``file_stamps`` detects changed
files, and ``user_folders`` finds the user's cache, state and configuration.
"""
