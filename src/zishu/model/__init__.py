"""Define what a trained parser is on disk, run it, and turn its scores into trees.

In reading order: `files` (a model directory) and `settings` (its config.json); `vocabulary`, `features` (characters
to numbers); `windows` and `networks` (numbers to scores, the `Outputs` of a batch); `batch` (sentences, their scores
and all that is known about them: the `ScoredBatch` that decoding reads); `scores` (scores to a tree distribution);
`mbr` and `k_best` (distribution to trees), `words` (trees to `Words`), `labels`, `tags` and `confidence` (of words)
and, using all of these, `decode` (batch to sentences); `beam` and `segments` (the same for transition parsers and
segmenters); `inner` (trees inside words); `model` (all of it together: `Model`); `runtime` (a directory to ONNX
sessions) and `directory` (writing one).

Nothing here imports torch, so users who only parse need not install it. Training shares all but the last two modules,
so a parser is evaluated by the same code that users run.
"""
