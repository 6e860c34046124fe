"""Use a trained model again in Python: `trueloop.load`."""
