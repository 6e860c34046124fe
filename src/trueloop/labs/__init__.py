"""Labs: questions that the reader's own machine answers. One file each, in a folder for each group (docs/labs.md)."""
