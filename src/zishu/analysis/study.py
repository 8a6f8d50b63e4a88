"""Analyse several systems, each trained with one or more seeds.

    gold = [sentence.tree() for sentence in read_conllu("test.conllu")]
    runs = [predict(load_model(path), path, gold) for path in paths]  # one per seed
    report = study(gold, {"latent-c2f": runs}, reference=read_wist("WIST.conll"))

A `Study` holds what `zishu analyse` prints, writes (`study_files`) and draws (`figures`):

- the distribution of structures of words of 2, 3 and 4 characters (Tables 4 and 6 of the paper),
- the share of leftward arcs inside words,
- complete match with a lexicon of structures (Appendix B.2 and Table 8): CM is the share of words whose predicted
  structure equals the lexicon's, averaged over seeds; M-1 the share of words where at least one seed predicts it. Adding
  a seed never lowers M-1: compare it only between systems with the same number of seeds,
- attachment by word length, with given segmentation (Figure 4),
- scores from raw text (Table 3).

All gold words count, including numbers and foreign words; the reference is counted by entry. Structures are counted by
token, or by type as in the paper: every distinct word once, with its most frequent predicted structure; it matches the
lexicon if any of its occurrences does. Attachment and scores always count tokens.

Cost: linear in the number of words.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from zishu.analysis.structures import Heads, commonest, leftward_share, shares
from zishu.errors import InputError
from zishu.metrics import LENGTHS, Average, evaluate, pair, signature
from zishu.structures import is_chinese

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zishu.analysis.predictions import Predictions
    from zishu.tree import WordTree

TokensOrTypes = Literal["tokens", "types"]

# Word lengths whose structures are listed. Longer words are rare and have many structures.
STRUCTURE_LENGTHS: Final = (2, 3, 4)

# The scores of Table 3 by their names in `zishu.metrics`, in the paper's order.
SCORES: Final = ("seg", "uf", "lf", "lcm")

ALL: Final = "all"
_MATCH_LENGTHS: Final = LENGTHS[1:]  # a word of one character has only one structure


@dataclass(frozen=True, slots=True)
class Matches:
    """Count the words found in the lexicon, and those with its structure: for each seed, and for any seed."""

    words: int
    by_seed: tuple[int, ...]
    by_any: int

    @property
    def cm(self) -> Average | None:
        """Return the complete match in per cent; None if no word is in the lexicon."""
        return Average(tuple(100 * right / self.words for right in self.by_seed)) if self.words else None

    @property
    def many_to_one(self) -> float | None:
        """Return the many-to-one complete match in per cent; None if no word is in the lexicon."""
        return 100 * self.by_any / self.words if self.words else None


@dataclass(frozen=True, slots=True)
class Attachment:
    """Hold the UAS of the words of one length in per cent, by seed; None if there is no such word."""

    words: int
    uas: Average | None


@dataclass(frozen=True, slots=True)
class StudiedSystem:
    """Hold the results of one system, one value for each seed."""

    runs: tuple[str, ...]
    counts: tuple[Counter[Heads], ...]  # structures; empty if the system does not predict them
    attachment: Mapping[str, Attachment]
    scores: Mapping[str, Average]  # empty if the system needs words
    matches: Mapping[str, Matches]  # empty without a lexicon, or if the system predicts no structures

    def share(self, heads: Heads) -> Average | None:
        """Return the share of a structure among the words of its length; None if there are no such words."""
        if not self.counts or not any(len(seen) == len(heads) for seen in self.counts[0]):
            return None
        return Average(tuple(shares(counts, len(heads)).get(heads, 0.0) for counts in self.counts))

    @property
    def leftward(self) -> Average | None:
        """Return the share of leftward arcs inside words."""
        values = [leftward_share(counts) for counts in self.counts]
        known = tuple(value for value in values if value is not None)
        return Average(known) if known else None


@dataclass(frozen=True, slots=True)
class Study:
    """Hold the analyses of several systems on one gold file."""

    sentences: int
    words: int
    count: TokensOrTypes  # the unit of `by_length` and of the systems' structures
    by_length: Mapping[int, int]  # number of gold words by length
    systems: Mapping[str, StudiedSystem]
    reference: Counter[Heads] | None  # structures of the lexicon, by entry
    examples: Mapping[Heads, str]  # one word for every structure that occurs
    signature: str

    def structures(self, length: int) -> list[Heads]:
        """Return the structures in predictions or reference, ordered by their share in the reference.

        Without a reference they are ordered by their mean share over the systems.
        """
        known = shares(self.reference or {}, length)
        predicted = {
            heads: sum(share.mean for system in self.systems.values() if (share := system.share(heads)))
            for heads in self.examples
            if len(heads) == length
        }
        return sorted(predicted, key=lambda heads: (-known.get(heads, 0.0), -predicted[heads], heads))

    def reference_share(self, heads: Heads) -> float | None:
        """Return the share of a structure among the entries of its length; None if there are no such entries."""
        known = shares(self.reference or {}, len(heads))
        return known.get(heads, 0.0) if known else None


def study(
    gold: Sequence[WordTree],
    systems: Mapping[str, Sequence[Predictions]],
    *,
    reference: Mapping[str, Heads] | None = None,
    punct: bool = False,
    count: TokensOrTypes = "tokens",
) -> Study:
    """Analyse the runs of every system (at least one each) against gold trees and a lexicon of structures."""
    if not gold:
        raise InputError("there are no sentences to analyse")
    words = [word for tree in gold for word in zip(tree.forms, tree.lengths, strict=True)]
    lengths = Counter(length for _, length in (words if count == "tokens" else set(words)))
    return Study(
        sentences=len(gold),
        words=len(words),
        count=count,
        by_length={length: lengths[length] for length in STRUCTURE_LENGTHS},
        systems={
            name: _system(gold, runs, reference, punct=punct, count=count) for name, runs in systems.items()
        },
        reference=None if reference is None else Counter(reference.values()),
        examples=_examples(gold, [run for runs in systems.values() for run in runs], reference or {}),
        signature=signature(punct=punct),
    )


def merge(studies: Sequence[Study]) -> Study:
    """Merge studies of different systems on the same gold file and reference."""
    first = studies[0]
    systems: dict[str, StudiedSystem] = {}
    examples: dict[Heads, str] = {}
    for other in studies:
        if replace(other, systems=first.systems, examples=first.examples) != first:
            raise InputError("the analyses differ in their sentences, references or scores")
        if twice := systems.keys() & other.systems.keys():
            raise InputError(f"two analyses contain the system {min(twice)}")
        systems |= other.systems
        examples = {**other.examples, **examples}
    return replace(first, systems=systems, examples=examples)


def _system(
    gold: Sequence[WordTree],
    runs: Sequence[Predictions],
    reference: Mapping[str, Heads] | None,
    *,
    punct: bool,
    count: TokensOrTypes,
) -> StudiedSystem:
    words = [form for tree in gold for form in tree.forms]
    inside = [[*chain.from_iterable(run.inside)] for run in runs if run.inside is not None]
    raw = [run.raw for run in runs if run.raw is not None]
    if len(inside) not in (0, len(runs)) or len(raw) not in (0, len(runs)):
        names = ", ".join(run.name for run in runs)
        raise InputError(f"one system cannot mix character-level and word-level parsers: {names}")
    counted = inside if count == "tokens" else [[*commonest(words, seed).values()] for seed in inside]
    evaluations = [evaluate(pair(gold, trees), punct=punct) for trees in raw]
    return StudiedSystem(
        runs=tuple(run.name for run in runs),
        counts=tuple(Counter(heads for heads in seed if len(heads) > 1) for seed in counted),
        attachment=uas_by_length(gold, [run.given for run in runs], punct=punct),
        scores={name: Average(tuple(e.value(name) for e in evaluations)) for name in SCORES if evaluations},
        matches={} if reference is None or not inside else complete_match(words, inside, reference, count),
    )


def complete_match(
    words: Sequence[str],
    seeds: Sequence[Sequence[Heads]],
    reference: Mapping[str, Heads],
    count: TokensOrTypes = "tokens",
) -> dict[str, Matches]:
    """Count the matches of all words and by word length, under the keys ALL and _MATCH_LENGTHS.

    `seeds` holds the predicted structure of every word for each seed.
    """
    if not seeds:
        raise InputError("complete match needs the predictions of at least one seed")
    if any(len(seed) != len(words) for seed in seeds):
        raise InputError("a seed has predictions for other words")
    found: dict[tuple[str, int], list[bool]] = {}  # by word and, for tokens, its number
    for number, form in enumerate(words):
        if len(reference.get(form, ())) > 1:
            right = [seed[number] == reference[form] for seed in seeds]
            key = form, number if count == "tokens" else 0
            found[key] = [old or new for old, new in zip(found.get(key, right), right, strict=True)]
    groups: dict[str, list[list[bool]]] = {name: [] for name in (ALL, *_MATCH_LENGTHS)}
    for (form, _), right in found.items():
        for name in (ALL, LENGTHS[min(len(reference[form]), len(LENGTHS)) - 1]):
            groups[name].append(right)
    matches = {}
    for name, group in groups.items():
        by_seed = tuple(sum(right[k] for right in group) for k in range(len(seeds)))
        matches[name] = Matches(len(group), by_seed, by_any=sum(map(any, group)))
    return matches


def uas_by_length(
    gold: Sequence[WordTree], seeds: Sequence[Sequence[WordTree]], *, punct: bool = False
) -> dict[str, Attachment]:
    """Score the trees of each seed by word length; they must have the gold words."""
    scored = [evaluate(pair(gold, trees), punct=punct).scores for trees in seeds]
    if not scored:
        raise InputError("attachment by length needs the predictions of at least one seed")
    table = {}
    for length in LENGTHS:
        at = [scores.by_length[length] for scores in scored]
        known = tuple(scores.uas for scores in at if scores.uas is not None)
        if len(known) < len(at):
            raise InputError("attachment by length needs predictions with the gold words")
        words = at[0].uf.gold
        table[length] = Attachment(words, Average(known) if words else None)
    return table


def _examples(
    gold: Sequence[WordTree], runs: Sequence[Predictions], reference: Mapping[str, Heads]
) -> dict[Heads, str]:
    """Choose a word for every structure of STRUCTURE_LENGTHS: one that models often give it, or a lexicon entry.

    Chinese words take precedence over numbers and foreign words, whose structure says little.
    """
    words = [form for tree in gold for form in tree.forms]
    seen: dict[Heads, Counter[str]] = {}
    for run in runs:
        for form, heads in zip(words, chain.from_iterable(run.inside or ()), strict=run.inside is not None):
            seen.setdefault(heads, Counter())[form] += 1
    for form, heads in reference.items():
        if heads not in seen:
            seen[heads] = Counter({form: 1})
    return {
        heads: min(forms, key=lambda form: (not is_chinese(form), -forms[form], form))
        for heads, forms in seen.items()
        if len(heads) in STRUCTURE_LENGTHS
    }
