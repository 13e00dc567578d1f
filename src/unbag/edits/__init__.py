"""Edits of captions: hard negatives, which are false, and hard positives, which stay true."""
