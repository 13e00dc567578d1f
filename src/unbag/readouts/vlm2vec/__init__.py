"""Vlm2vec."""
