"""The checks inside somebody else's program: pytest, Lightning, the Trainer of Hugging Face."""
