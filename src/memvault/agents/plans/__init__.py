"""Plans: their files, when they run, and how they fire."""
