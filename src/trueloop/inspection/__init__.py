"""`trueloop inspect`: models, checkpoints, tensors and batches as documents. Nothing is trained or changed."""
