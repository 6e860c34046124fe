"""What writes the pages and pictures of the documentation, and the tests that they are current."""
