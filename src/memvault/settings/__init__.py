"""Load a vault's settings and its user's settings.

``vault_settings`` and ``user_settings`` define a row for each setting; ``table`` loads and checks a
file by these rows, and ``toml_file`` reads and changes it. ``exclusions`` decides which files are
memories, ``locate`` finds the vault of a command.
"""
