"""Recognition benchmarks: one picture, and a caption or several prompts for each class."""
