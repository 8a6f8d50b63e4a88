"""Pictures of parsed sentences: on the terminal and as SVG."""
