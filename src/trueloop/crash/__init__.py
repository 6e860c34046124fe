"""WHAT A CRASH MEANS: one file per kind of crash that trainers meet; each explains it with the numbers of this run."""
