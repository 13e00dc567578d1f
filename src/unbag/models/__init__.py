"""Models: picture and caption encoders, chat models, matching heads and blind baselines."""
