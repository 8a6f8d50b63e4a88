"""Label the arcs of a converted tree with the relations of Penn2Malt's "Malt" scheme.

Penn2Malt is closed source. This module implements two interpretations of its labels; heads are the same in both.

`malt` reproduces the paper's data. Function tags are removed before labelling, so subjects and objects are VMOD. The
relation depends on the phrase in which head and dependent meet: VMOD in clauses and verb phrases, NMOD in noun phrases,
PMOD in prepositional and localizer phrases, AMOD in adjectival and adverbial phrases, and DEP in all others, such as
FRAG. Punctuation is P. The paper shows only two sentences, so the labels of rare phrases are our guess.

`functional` uses function tags and more relations. Each rule names its source:

[P] the program's own description: -SBJ and -PRD count on noun phrases, and a noun phrase under VP without an
    adverbial function tag is an object.
[N] Nivre and others, "MaltParser" (2007), who list the relations: VMOD, NMOD, AMOD, PMOD for modifiers of verbs,
    nouns, adjectives and adverbs, prepositions; VC for verb chains; SBAR for a clause that depends on a
    complementizer; P for punctuation; DEP for the rest.
[C] papers on the Chinese treebank: IP and CP are objects as well, a complementizer phrase is SBAR, a
    parenthetical PRN.

Tags and categories are those of the dependent's largest phrase, the child of the phrase where it meets its head.
Special relations take precedence over modifiers: a relative clause (CP) of a noun is SBAR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from zishu.formats.brackets import Tree

Labels = Literal["malt", "functional"]
ROOT_RELATION: Final = "ROOT"

# Other tags (-PN: proper name, -SHORT: abbreviation) do not distinguish objects from adverbials.
_ADVERBIAL = frozenset(
    ("ADV", "BNF", "CND", "DIR", "EXT", "FOC", "IJ", "IMP", "LGS", "LOC", "MNR", "PRP", "TMP", "TPC", "VOC")
)
_OBJECTS = frozenset(("NP", "IP", "CP"))
_VERBS = frozenset(("VV", "VA", "VC", "VE"))
_VERBAL = _VERBS | {"VP", "VCD", "VCP", "VNV", "VPT", "VRD", "VSB"}
_COMPLEMENTIZERS = frozenset(("CS", "DEC"))
_CLAUSES = frozenset(("IP", "VP", "CP"))

# Label of a modifier by the part of speech of its head [N]. 把 and 被 (BA, LB, SB) head verb phrases. Numbers and measure
# words count as adjectives, as the quantifier phrases of the English scheme do.
_MODIFIERS = (
    dict.fromkeys((*_VERBS, "BA", "LB", "SB"), "VMOD")
    | dict.fromkeys(("NN", "NR", "NT", "PN"), "NMOD")
    | dict.fromkeys(("JJ", "AD", "CD", "OD", "M"), "AMOD")
    | {"P": "PMOD"}
)

# Label of a dependent by the phrase in which it meets its head.
_PHRASES = (
    dict.fromkeys(("IP", "CP", "VP", "VCD", "VCP", "VNV", "VPT", "VRD", "VSB"), "VMOD")
    | dict.fromkeys(("NP", "QP", "DP", "CLP", "DNP"), "NMOD")
    | dict.fromkeys(("PP", "LCP"), "PMOD")
    | dict.fromkeys(("ADJP", "ADVP", "DVP"), "AMOD")
)


def relation(
    phrase: Tree, head: int, dependent: int, head_tag: str, tag: str, *, labels: Labels = "malt"
) -> str:
    """Return the relation of a child of a phrase to the phrase's head child, both given by their indices.

    The tags are the parts of speech of the two words that the arc connects.
    """
    if labels != "functional":
        return "P" if tag == "PU" else _PHRASES.get(phrase.category, "DEP")
    node = phrase.children[dependent]
    category, functions = node.category, node.functions
    if category == "PRN":  # [C]; before P, because the head of a parenthetical is its first punctuation mark
        return "PRN"
    if tag == "PU":  # [N]
        return "P"
    if "SBJ" in functions:  # [P]
        return "SUB"
    if "PRD" in functions:  # [P]
        return "PRD"
    # A child without a function tag is an object if it is right of the verb and not an adverbial.
    is_object = (
        phrase.category == "VP"
        and dependent > head
        and head_tag in _VERBS
        and category in _OBJECTS
        and not functions & _ADVERBIAL
    )
    if functions & {"OBJ", "IO"} or is_object:  # [P], [C]
        return "OBJ"
    if category == "CP" or (category in _CLAUSES and head_tag in _COMPLEMENTIZERS):  # [C], [N]
        return "SBAR"
    if _is_chain(phrase, head, dependent):  # [N]
        return "VC"
    return _MODIFIERS.get(head_tag, "DEP")  # [N]


def _is_chain(phrase: Tree, head: int, dependent: int) -> bool:
    """Tell whether two verbs or verb phrases are adjacent, with no conjunction or comma between them."""
    between = phrase.children[min(head, dependent) + 1 : max(head, dependent)]
    ends = (phrase.children[head].category, phrase.children[dependent].category)
    return (
        phrase.category in _VERBAL
        and _VERBAL.issuperset(ends)
        and not any(node.category in ("CC", "PU") for node in between)
    )
