"""What can be wrong: one file per rule, in a folder for each family. No torch."""
