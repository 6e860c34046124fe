"""The user's source: statements, ownership, rewriting, allow comments, settings. No torch."""
