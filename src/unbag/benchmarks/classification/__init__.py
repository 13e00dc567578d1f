"""Classification benchmarks: one image, and a caption or several prompts for each class."""
