"""Settings of a vault and of its user, and where they come from.

``vault_settings`` loads ``memvault.toml``, ``user_settings`` the user's own file, both through
``toml_file``. ``locate`` decides which vault a command means, ``vaults`` holds named and trusted
vaults, and ``grants`` what the user allowed on this machine.
"""
