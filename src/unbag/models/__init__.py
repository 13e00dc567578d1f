"""Models: dual encoders, chat models, matching heads and blind baselines."""
