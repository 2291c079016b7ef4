"""The example world, where a vault's settings switch it on."""
