"""What trueloop made itself on this machine, what a stranger may have made, and what is done with the latter."""
