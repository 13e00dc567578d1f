"""Decoder."""
