"""Define the JSON of a parsed sentence in one place, as JSON Schema (draft 2020-12).

`zishu.formats.jsonl` writes and reads this JSON, the service sends it and includes this schema in its OpenAPI
description, and the page reads it. Tests validate the real output against it.

`id`, `end`, `root` and a word's `prob` are redundant, for convenience. Offsets are half-open and count code points of
the parsed text.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]


def _int(description: str, minimum: int = 0) -> Schema:
    return {"type": "integer", "minimum": minimum, "description": description}


def _prob(description: str) -> Schema:
    return {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": description}


def record(description: str, properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object that has these keys and no others."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }


WORD: Final = record(
    "One word of a sentence. Unknown values are null.",
    {
        "id": _int("Its number in the sentence, from 1.", 1),
        "form": {"type": "string", "minLength": 1, "description": "The text from `start` to `end`."},
        "start": _int("Start in the text, in code points."),
        "end": _int("End in the text, exclusive."),
        "lemma": {"type": ["string", "null"], "description": "Its lemma."},
        "upos": {"type": ["string", "null"], "description": "Its part of speech."},
        "xpos": {"type": ["string", "null"], "description": "Its treebank-specific tag."},
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
            "description": "The index of its root character in the word, from 0.",
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

SENTENCE: Final = record(
    "One analysis of a sentence.",
    {
        "text": {
            "type": "string",
            "minLength": 1,
            "description": "The text of the sentence, including white space inside it.",
        },
        "start": _int("Start in the text, in code points."),
        "end": _int("End in the text, exclusive."),
        "after": {"type": "string", "description": "The white space after it."},
        "prob": _prob("The probability of the words and their tree, with the trees inside words summed out."),
        "prob_without_lexicon": _prob(
            "The same without the lexicon; missing unless that has found something in the sentence."
        ),
        "cut": {
            "type": "boolean",
            "description": "Whether it was cut because of its length and continues in the next sentence.",
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

# What `--only words|tags` writes: the same keys, as far as they are known.
TOKENS: Final = record(
    "A sentence that was segmented or tagged, but not parsed.",
    {
        **{key: SENTENCE["properties"][key] for key in ("text", "start", "end", "after", "cut")},
        "words": {
            **SENTENCE["properties"]["words"],
            "items": record(
                "One word; its tags if they were requested and the model has them.",
                {key: WORD["properties"][key] for key in ("id", "form", "start", "end", "upos", "xpos")},
                optional=("upos", "xpos"),
            ),
        },
    },
)

# One line of a JSON lines file written by `zishu parse`.
LINE: Final = record(
    "One analysis of a sentence, with its position in the output.",
    {
        "sent_id": {"type": "string", "description": "The number of the sentence."},
        "doc_id": {"type": "string", "description": "The document that the sentence belongs to."},
        "rank": _int("The rank of the analysis, from 1.", 1),
        **SENTENCE["properties"],
    },
    optional=("sent_id", "doc_id", "rank", "prob_without_lexicon"),
)
