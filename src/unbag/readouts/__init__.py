"""Read-outs beyond one vector: readers of patches and words, chat models as encoders, decoders."""
