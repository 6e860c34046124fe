"""READY TO TRAIN: one file per bundled recipe; the folder is the registry."""
