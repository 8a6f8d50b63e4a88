"""The file formats Zishu reads and writes: one module each, with one reader and one writer."""
