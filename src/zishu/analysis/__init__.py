"""Study trained parsers: what they predict inside words (the paper's analysis section), and how systems compare.

Modules about words, in reading order: `structures` (what a structure is, as text and in numbers), `study` (structures,
matches with a lexicon and attachment by word length, for several systems and seeds), `systems` (the models of systems,
and their predictions), `study_files`, `fonts` and `figures` (pictures). They work on plain trees and tuples; only
`systems` and `study.predict` run models.

Modules about scores: `runs` (the results of training runs), `compare` (systems, seeds, significance tests),
`compare_tables` (text, Markdown, LaTeX, JSON). `tables` lays out any table.
"""
