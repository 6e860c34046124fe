"""MORE THAN ONE PROCESS: who the others are, and what is agreed with them."""
