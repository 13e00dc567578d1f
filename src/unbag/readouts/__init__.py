"""Read-outs of a frozen model beyond one vector: readers of parts, decoders, VLM2Vec."""
