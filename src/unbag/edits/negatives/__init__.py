"""Hard negatives from rules and word lists."""
