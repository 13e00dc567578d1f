"""Open clip."""
