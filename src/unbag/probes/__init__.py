"""Why a score is what it is: probes as functions on vectors, and on models."""
