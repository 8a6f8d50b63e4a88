"""Study trained parsers: what they predict inside words (the paper's analysis section), and how systems compare.

Modules about words, in reading order: `structures` (what a structure is, as text and in numbers), `predictions` (what a
model predicts for the gold sentences), `study` (structures, matches with a lexicon and attachment by word length, for
several systems and seeds), `systems` (from model folders to a study), `study_files`, `fonts` and `figures` (pictures).
Only `predictions` runs models; the others work on plain trees and tuples.

Modules about scores: `runs` (the results of training runs), `compare` (systems, seeds, significance tests),
`compare_tables` (text, Markdown, LaTeX, JSON). `tables` lays out any table.
"""
