"""What repeats in episodes, made into proposals and written where they are accepted."""
