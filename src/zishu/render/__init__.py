"""Draw parsed sentences: on the terminal and as SVG."""
