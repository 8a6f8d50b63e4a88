"""Convert phrase structure trees into dependency trees by the head rules of Zhang and Clark (2008), the paper's "Z&C".

The head word of a phrase is the head word of its head child. The head words of the other children depend on it, with a
label from `labels`. So the words of every phrase form one subtree, and the result is always a projective tree.

A rule is a sequence of parts, tried in order. The part `r NP NN` takes the first child from the right whose category is
in the list; the order within the list does not matter. The last part is a direction alone and takes the outermost child
on that side: `r` the last one, `l` the first. So a rule always finds a head.

Some descriptions treat a list as a priority order. Read as sets, the rules reproduce the paper's data: 经济 heads `(NP
(NP (NR 中国)) (NN 经济))`, where a priority of NP over NN would give 中国.

There are no other rules. Punctuation is not skipped: it can be the head if a rule falls back to a direction, and `PRN`
asks for it. Coordination has no rule of its own. The same search picks one conjunct (the last one of an NP or IP, the
first one of a VP), and the other conjuncts, conjunctions and commas depend on it.

Cost: linear in the tree, except for the search among the children of a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zishu.tree import ROOT, WordTree
from zishu.treebank.labels import ROOT_RELATION, Labels, relation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.formats.brackets import Tree

HEAD_RULES: dict[str, str] = {
    "ADJP": "r ADJP JJ AD; r",
    "ADVP": "r ADVP AD CS JJ NP PP P VA VV; r",
    "CLP": "r CLP M NN NP; r",
    "CP": "r CP IP VP; r",
    "DNP": "r DEG DNP DEC QP; r",
    "DP": "r M; l DP DT OD; l",
    "DVP": "r DEV AD VP; r",
    "FRAG": "r VV NR NN NT; r",
    "IP": "r VP IP NP; r",
    "LCP": "r LCP LC; r",
    "LST": "r CD NP QP; r",
    "NN": "r NP NN IP NR NT; r",
    "NP": "r NP NN IP NR NT; r",
    "PP": "l P PP; l",
    "PRN": "l PU; l",
    "QP": "r QP CLP CD; r",
    "UCP": "l IP NP VP; l",
    "VCD": "l VV VA VE; l",
    "VP": "l VE VC VV VNV VPT VRD VSB VCD VP; l",
    "VPT": "l VA VV; l",
    "VRD": "l VV VA; l",
    "VSB": "r VV VE; r",
}
DEFAULT_RULE = "r"

_RULES = {
    category: [(part.split()[0], frozenset(part.split()[1:])) for part in rule.split(";")]
    for category, rule in {**HEAD_RULES, "": DEFAULT_RULE}.items()
}

# Escaped spellings of brackets.
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def dependencies(tree: Tree, labels: Labels = "malt") -> WordTree:
    """Convert a tree without empty elements with the Z&C head rules and either kind of Malt labels.

    The treebank's parts of speech are XPOS.
    """
    forms: list[str] = []
    tags: list[str] = []
    heads: list[int] = []
    relations: list[str] = []

    def attach(node: Tree) -> int:
        """Number the words of a phrase and set every head but that of its head word; return its number."""
        if node.word is not None:
            forms.append(unescape(node.word))
            tags.append(node.category)
            heads.append(ROOT)
            relations.append(ROOT_RELATION)
            return len(forms)
        tops = [attach(child) for child in node.children]
        head = find_head(node.category, [child.category for child in node.children])
        top = tops[head]
        for k, dependent in enumerate(tops):
            if k != head:
                heads[dependent - 1] = top
                pair = tags[top - 1], tags[dependent - 1]
                relations[dependent - 1] = relation(node, head, k, *pair, labels=labels)
        return top

    attach(tree)
    return WordTree(tuple(forms), tuple(heads), tuple(relations), xpos=tuple(tags))


def unescape(word: str) -> str:
    """Return a word as written in the text: trees spell brackets as -LRB- and so on."""
    return _ESCAPES.get(word, word)


def find_head(category: str, children: Sequence[str]) -> int:
    """Return the index (from 0) of the head among the categories of a phrase's children."""
    count = len(children)
    for direction, wanted in _RULES.get(category, _RULES[""]):
        order = range(count) if direction == "l" else range(count - 1, -1, -1)
        if not wanted:
            return order[0]
        for index in order:
            if children[index] in wanted:
                return index
    raise AssertionError(f"the rule of {category} has no last part")
