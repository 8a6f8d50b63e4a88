"""Read annotated data in other formats: treebanks and lexicons of word structures."""
