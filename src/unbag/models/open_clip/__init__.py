"""Models of the open_clip library."""
