"""COME BACK LATER: complete, atomic, hashed, safe to load. plan (pure), store (where), saver (in the background),
read."""
