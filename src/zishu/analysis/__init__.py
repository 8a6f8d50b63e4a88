"""Study trained parsers: what they do inside words, as the paper's analysis section does, and how they compare.

Inside words, in the order to read: `structures` (what a structure is, as text and in numbers), `matches` (complete
match with a lexicon), `lengths` (attachment by word length), `study` (all of it for several systems and seeds),
`fonts` and `figures` (pictures). Everything works on plain trees and tuples; only `study.predict` runs a model.

Scores: `runs` (what training runs have left behind), `compare` (systems, seeds, tests of their differences),
`compare_tables` (Markdown, LaTeX, JSON).
"""
