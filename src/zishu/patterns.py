"""Find tokens by their form: addresses, names, numbers, dates, Latin words, laughter, rows of one emoji.

`TABLE` defines everything: for each kind its name, a regular expression, and whether the token ends where the
expression does. Numbers do not, because treebanks join more to them (500万, 第5, 2012年). At every position the first kind
that matches wins. The tokens become constraints of the chart (`zishu.constraints`): no boundary inside and, if the
token ends there, boundaries on both sides. The user's pins, breaks and lexicons take precedence. White space is never
inside a token. Emoji and laughter, which are rare in treebanks, also get their part of speech (`TAGS`).

Cost: one pass over the text, a fraction of a microsecond per character; Chinese text without digits and Latin letters
costs almost nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import regex  # type: ignore[import-untyped, unused-ignore]

if TYPE_CHECKING:
    from collections.abc import Iterator

# The group is atomic: 52F must not give up its last digit to be a number that no letter follows.
_NUMBER: Final = r"(?>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
_UNITS: Final = r"km/h|m/s|[kKMGT]?(?:Hz|Wh|Pa|[BbWVANJ])|[kcmnμµ]?[mgLls]|in|ft|lb|oz|K|°C|℃"

# Groups inside an expression have names in capitals.
TABLE: Final = (
    ("address", r"(?:(?:https?|ftp)://|www\.)[!-~]*[0-9A-Za-z/_=&%#-]", True),
    ("mail", r"[0-9A-Za-z][0-9A-Za-z._%+-]*@[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)+", True),
    ("name", r"@[0-9A-Za-z_-]+|@[\w-]{2,20}(?=[\s:：,，]|$)", True),
    ("topic", r"#[^#\s。！？]{1,40}#|#[0-9A-Za-z_]*[A-Za-z_][0-9A-Za-z_]*", True),
    ("phone", r"(?:\+86-?)?(?:1\d{2}-\d{4}-\d{4}|0\d{2,3}-\d{7,8}|400-(?:\d{3}-\d{4}|\d{4}-\d{3}))(?![\d-])", True),
    ("date", r"\d{4}(?P<SEPARATOR>[-/.])\d{1,2}(?P=SEPARATOR)\d{1,2}(?![\d.])", True),
    ("time", r"\d{1,2}[:：]\d{2}(?:[:：]\d{2})?(?![\d:：])", True),
    ("abbreviation", r"(?:\p{Latin}\.){2,}", True),
    ("file", r"[0-9A-Za-z_][0-9A-Za-z_-]*(?:\.[0-9A-Za-z_-]+)*\.[A-Za-z][0-9A-Za-z]{0,4}(?![0-9A-Za-z_@.-])", True),
    ("unit", rf"{_NUMBER}(?:{_UNITS})(?![\p{{Latin}}\d])|(?:km/h|m/s)(?!\p{{Latin}})", True),
    ("version", r"[vV]\d+(?:\.\d+)*|\d+(?:\.\d+){2,}(?:-?(?:alpha|beta|rc|dev)\.?\d*)?", True),
    ("number", rf"{_NUMBER}(?:[%％‰]|(?!\p{{Latin}}))", False),
    ("latin", r"[\p{Latin}\d]+\p{M}*(?:[\p{Latin}\p{M}\d]|[-'’&._+](?=[\p{Latin}\d]))*(?:\+\+|#(?![0-9A-Za-z#]))?", True),
    ("emoji", r"(?P<EMOJI>(?=[\p{Emoji_Presentation}\p{Regional_Indicator}])\X)(?P=EMOJI)*", True),
    ("laughter", r"(?P<SOUND>[哈呵嘿嘻呜嗷])(?P=SOUND){2,}", True),
)  # fmt: skip

TAGS: Final = {"emoji": "SYM", "laughter": "INTJ"}

_ANY: Final = regex.compile("|".join(f"(?P<{name}>{form})" for name, form, _ in TABLE), regex.VERSION1)
_ENDS: Final = {name: ends for name, _, ends in TABLE}
# Every token contains one of these; searching for them is much faster.
_HINT: Final = re.compile(
    "[0-9A-Za-z\u00c0-\u024f０-９Ａ-Ｚａ-ｚ@#哈呵嘿嘻呜嗷\u2190-\u2bff\U0001f000-\U0001faff]"
)


# Start and end (exclusive), whether there are boundaries on both sides, and the tag.
Token = tuple[int, int, bool, str | None]


def find_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text."""
    if not _HINT.search(text):
        return
    for found in _ANY.finditer(text):
        name = found.lastgroup  # the outermost one, which ends last
        yield found.start(), found.end(), _ENDS[name], TAGS.get(name)
