"""Read what annotators have left: treebanks and lexicons in formats of their own."""
