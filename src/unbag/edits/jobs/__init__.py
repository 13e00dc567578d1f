"""Edits of whole collections: resumable jobs, in one process or many."""
