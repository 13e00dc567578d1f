"""Edits of whole collections: jobs that can be stopped and go on, in one process or many."""
