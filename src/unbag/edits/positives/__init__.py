"""Hard positives from rules and word lists."""
