"""Export a trained model: one file per target. Every artifact is verified in its own runtime before it is published."""
