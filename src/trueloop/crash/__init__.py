"""WHAT A CRASH MEANS: one kind per file, the short ones in one; each explains a crash with the numbers of this run."""
