"""Training of the shipped checkpoints and, later, every published claim run on the world."""
