"""Batches for training, from pairs of images and captions or from the world."""
