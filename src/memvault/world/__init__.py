"""The example world, available if a vault's settings enable it."""
