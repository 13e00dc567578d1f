"""Benchmarks from their official files: one small module each, read strictly."""
