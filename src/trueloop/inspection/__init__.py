"""WHAT IS THERE: models, checkpoints, tensors and batches, looked at and told as sheets. Nothing is trained, nothing is
changed."""
