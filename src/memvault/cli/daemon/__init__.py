"""The resident process: a daemon that runs commands with vaults that stay open, and its client.

``client`` decides whether a command uses it, and ``server`` whether it can run the command.
"""
