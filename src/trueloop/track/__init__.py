"""HOW A RUN OF OURS IS FOLLOWED: each file a hook that shows or keeps what the loop tells. No torch."""
