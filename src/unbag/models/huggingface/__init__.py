"""Models of the transformers library: dual encoders, matching heads and chat models."""
