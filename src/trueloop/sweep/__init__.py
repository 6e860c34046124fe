"""Many runs of one recipe: which settings to try, each run in a process of its own, and what became of them."""
