"""A model behind HTTP: everything that comes in is untrusted, and what is refused is refused with one sentence."""
