"""Vector files and nearest-neighbor search over them."""
