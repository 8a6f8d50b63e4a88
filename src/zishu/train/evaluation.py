"""Parse a treebank's sentences with a network in training, and score the result.

Only the forward pass is torch's; decoding is the same code that users run (`zishu.model.decode`), in the paper's way, so
that scores compare with its tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zishu import metrics
from zishu.model.decode import Outputs, decode, decode_words, paper_decoding, word_gaps
from zishu.model.features import batches, features, pooling
from zishu.train.export import settings_of
from zishu.tree import flat_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.metrics import Evaluation
    from zishu.train.data import Inventory
    from zishu.train.systems import Network
    from zishu.tree import WordTree

# Characters in one forward pass: enough to keep the cores busy, little enough for any memory.
_BATCH_CHARS = 2000


def evaluate(
    network: Network,
    inventory: Inventory,
    gold: Sequence[WordTree],
    *,
    given_words: bool = False,
    style: str = "",
) -> Evaluation:
    """Score the network on gold trees: from raw characters or, if its task or the caller says so, from gold words."""
    predicted = parse(network, inventory, gold, given_words=given_words, style=style)
    return metrics.evaluate(zip(gold, predicted, strict=True))


def parse(
    network: Network,
    inventory: Inventory,
    gold: Sequence[WordTree],
    *,
    given_words: bool = False,
    style: str = "",
) -> list[WordTree]:
    """Parse the characters of gold trees, in batches of about equal length, and return trees in their order."""
    sentences = [tree.chars for tree in gold]
    parsed: dict[int, WordTree] = {}
    number = inventory.styles.index(style) if style else None
    training = network.training
    network.eval()
    for batch in batches([len(chars) for chars in sentences], _BATCH_CHARS):
        chosen = [gold[k] for k in batch]
        trees = _parse_batch(network, inventory, [sentences[k] for k in batch], chosen, given_words, number)
        parsed.update(zip(batch.tolist(), trees, strict=True))
    network.train(training)
    return [parsed[k] for k in range(len(gold))]


@torch.inference_mode()
def _parse_batch(
    network: Network,
    inventory: Inventory,
    sentences: list[list[str]],
    gold: list[WordTree],
    given_words: bool,
    style: int | None,
) -> list[WordTree]:
    settings = network.settings
    device = next(network.parameters()).device
    arrays: dict[str, NDArray[Any]] = dict(features(sentences, inventory.chars, inventory.bigrams, style))
    if settings.task == "parse-words":
        arrays["pool"] = pooling([tree.lengths for tree in gold])
    inputs = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    raw = network(
        inputs["chars"], inputs.get("bigrams"), inputs["lengths"], inputs.get("pool"), inputs.get("styles")
    )
    outputs = Outputs.from_mapping({name: value.cpu().numpy() for name, value in raw.items()})
    if settings.task == "segment":
        return [flat_tree(words) for words in decode_words(outputs, sentences, settings_of(network))]

    def score_labels(dep: NDArray[np.float32], head: NDArray[np.float32]) -> NDArray[np.float32]:
        ends = (torch.from_numpy(np.ascontiguousarray(end)).to(device) for end in (dep, head))
        scored: NDArray[np.float32] = network.label_scorer(*ends).cpu().numpy()
        return scored

    decoding = paper_decoding(settings, given_words=given_words)
    if settings.task == "parse-words":
        words = [tree.forms for tree in gold]
        analyses = decode(outputs, words, settings, score_labels, decoding=decoding)
    else:
        gaps = [word_gaps(tree.lengths) for tree in gold] if given_words else None
        analyses = decode(outputs, sentences, settings, score_labels, gaps=gaps, decoding=decoding)
    return [analysis.tree for analysis in analyses]
