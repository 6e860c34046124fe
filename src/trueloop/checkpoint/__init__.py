"""Checkpoints: complete, atomic, hashed and safe to load."""
