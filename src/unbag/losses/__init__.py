"""Training objectives as pure functions on `Embedded`."""
