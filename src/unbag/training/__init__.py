"""Repair dual encoders: recipes, losses, the training loop, and measuring before and after."""
