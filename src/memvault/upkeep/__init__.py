"""Looking after a vault: its state, its models, its beginnings."""
