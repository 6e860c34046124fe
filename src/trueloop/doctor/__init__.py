"""SOMEBODY ELSE'S LOOP: run a script as it stands, watch it, and say what is silently wrong."""
