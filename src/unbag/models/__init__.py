"""Models: image and caption encoders, chat models, matching heads and blind baselines."""
