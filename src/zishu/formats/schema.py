"""Describe the JSON of a parsed sentence, once, as JSON Schema (draft 2020-12).

`zishu.formats.jsonl` writes and reads this JSON, the service sends it and puts this schema into its OpenAPI description,
and the page reads it. Tests hold what is really written and sent against it.

`id`, `end`, `root` and a word's `prob` follow from the rest and are there for the convenience of readers. Offsets are
half-open and count code points of the text that was parsed.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]


def _int(description: str, minimum: int = 0) -> Schema:
    return {"type": "integer", "minimum": minimum, "description": description}


def _prob(description: str) -> Schema:
    return {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": description}


def _record(description: str, properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }


WORD: Final = _record(
    "One word of a sentence. A value that is not known is null.",
    {
        "id": _int("Its number in the sentence, from 1.", 1),
        "form": {"type": "string", "minLength": 1, "description": "The text from `start` to `end`."},
        "start": _int("Where it begins in the text, in code points."),
        "end": _int("Where it ends, exclusive."),
        "lemma": {"type": ["string", "null"], "description": "Its lemma."},
        "upos": {"type": ["string", "null"], "description": "Its part of speech."},
        "xpos": {"type": ["string", "null"], "description": "Its tag in the treebank's own tag set."},
        "feats": {
            "type": ["string", "null"],
            "description": "Its features, as in CoNLL-U: `Number=Plur|Person=3`, `_` for a word without any.",
        },
        "head": _int("The number of its head, 0 for the root of the sentence."),
        "deprel": {"type": "string", "description": "Its relation to its head."},
        "char_heads": {
            "type": ["array", "null"],
            "items": {"type": "integer", "minimum": 0},
            "minItems": 1,
            "description": "The head of each of its characters, numbered from 1 in the word, 0 for the root.",
        },
        "char_rels": {
            "type": ["array", "null"],
            "items": {"type": "string"},
            "minItems": 1,
            "description": "The relation of each of its characters to its head in the word, `root` for the root; null for "
            "latent trees and for words without a structure.",
        },
        "root": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "The place of its root character in the word, counted in characters from 0.",
        },
        "structure_prob": _prob("The probability of `char_heads` and `char_rels`, given the word."),
        "prob": _prob("The product of the following probabilities."),
        "boundary_prob": _prob("The probability of its boundaries."),
        "head_prob": _prob("The probability of its head, given the words."),
        "label_prob": _prob("The probability of its relation, given its head."),
        "upos_prob": _prob("The probability of its part of speech."),
        "boundary_prob_without_lexicon": _prob(
            "The same without the lexicon; missing unless that has found something in the sentence."
        ),
    },
    optional=("boundary_prob_without_lexicon",),
)

SENTENCE: Final = _record(
    "One analysis of a sentence.",
    {
        "text": {
            "type": "string",
            "minLength": 1,
            "description": "The sentence as it stands in the text, with its white space.",
        },
        "start": _int("Where it begins in the text, in code points."),
        "end": _int("Where it ends, exclusive."),
        "after": {"type": "string", "description": "The white space between it and what follows."},
        "prob": _prob("The probability of the words and their tree, with the trees inside words summed out."),
        "prob_without_lexicon": _prob(
            "The same without the lexicon; missing unless that has found something in the sentence."
        ),
        "cut": {
            "type": "boolean",
            "description": "Whether it was cut for its length and goes on in the next sentence.",
        },
        "words": {
            "type": "array",
            "items": WORD,
            "minItems": 1,
            "description": "Its words, in order.",
        },
    },
    optional=("prob_without_lexicon",),
)

# What stands on one line of a JSON lines file that `zishu parse` writes.
LINE: Final = _record(
    "One analysis of a sentence, with its place in the output.",
    {
        "sent_id": {"type": "string", "description": "The number of the sentence."},
        "doc_id": {"type": "string", "description": "The document that the sentence belongs to."},
        "rank": _int("The place of the analysis among the best few, from 1.", 1),
        **SENTENCE["properties"],
    },
    optional=("sent_id", "doc_id", "rank", "prob_without_lexicon"),
)
