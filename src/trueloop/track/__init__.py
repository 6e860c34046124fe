"""HOW A RUN IS FOLLOWED: hooks that show or keep what the training loop reports. No torch."""
