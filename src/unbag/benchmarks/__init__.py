"""Loaders of public benchmarks, one module each; they check the official files strictly."""
