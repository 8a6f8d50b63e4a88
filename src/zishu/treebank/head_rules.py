"""Find the head of a phrase by the rules of Zhang and Clark (2008), the paper's "Z&C" conversion.

A rule is a sequence of parts, tried in order. The part `r NP NN` takes the first child from the right whose category is
in the list; the order within the list does not matter. The last part is a direction alone and takes the outermost child
on that side: `r` the last one, `l` the first. So a rule always finds a head.

Some descriptions treat a list as a priority order. Read as sets, the rules reproduce the paper's data: 经济 heads `(NP
(NP (NR 中国)) (NN 经济))`, where a priority of NP over NN would give 中国.

There are no other rules. Punctuation is not skipped: it can be the head if a rule falls back to a direction, and `PRN`
asks for it. Coordination has no rule of its own. The same search picks one conjunct (the last one of an NP or IP, the
first one of a VP), and the other conjuncts, conjunctions and commas depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
