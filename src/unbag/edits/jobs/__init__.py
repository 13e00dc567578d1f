"""Resumable jobs that edit whole collections, in one process or many."""
