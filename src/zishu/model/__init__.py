"""Hold what a trained parser is on disk, run it, and turn its scores into trees.

In the order to read: `settings` (config.json); `vocabulary`, `stand_ins`, `features` (characters to numbers); `windows`
and `networks` (numbers to scores, the `Outputs` of a batch); `scores` (the tree distribution of these); `labels`, `tags`,
`words`, `mbr`, `confidence`, `k_best`, and with all of them `decode` (distribution to sentences); `beam` and `segments`
(the same for transition parsers and segmenters); `inner` (trees inside words); `model` (all of it together: `Model`);
`runtime` (a directory to ONNX sessions) and `directory` (how one is written).

Nothing here imports torch: a user who only parses never installs it. Training shares everything but the last two, so a
parser is evaluated in training by the code that people run.
"""
