"""SOMEBODY ELSE'S LOOP: run a script unmodified, watch it, and report its silent bugs."""
