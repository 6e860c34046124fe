"""The forms of one model against each other: each in a process of its own, all with the same inputs, in turns."""
