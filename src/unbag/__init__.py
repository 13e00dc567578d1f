"""Measure, explain and repair bag-of-words behaviour in vision-language models."""
