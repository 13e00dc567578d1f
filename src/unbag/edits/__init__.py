"""Edits of captions: hard negatives, which become false, and hard positives, which say the same."""
