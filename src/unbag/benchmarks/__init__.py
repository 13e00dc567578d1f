"""Benchmarks from their official files, one module each, read strictly."""
