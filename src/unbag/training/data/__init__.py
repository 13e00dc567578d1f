"""Batches for training, from pairs of pictures and captions or from the world."""
