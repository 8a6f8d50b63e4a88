"""Read and write file formats: one module per format, with one reader and one writer."""
