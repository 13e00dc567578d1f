"""Positives."""
