"""Bundled recipes: one file per recipe; the folder is the registry."""
