"""What every tool needs: the registry, the one way to run them, and their reference."""
