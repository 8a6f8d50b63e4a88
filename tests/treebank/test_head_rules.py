"""The Z&C head rules and the Malt labels, on sentences written for the purpose, with heads worked out by hand."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.formats.brackets import Tree, format_tree, read_brackets, remove_empty
from zishu.treebank.head_rules import HEAD_RULES, dependencies, find_head

# The labels "functional" as the papers list them.
FUNCTIONAL = {"ROOT", "SUB", "OBJ", "PRD", "VMOD", "NMOD", "AMOD", "PMOD", "VC", "SBAR", "PRN", "P", "DEP"}

# The published table, written down a second time in another form: direction and list, part by part.
TABLE = {
    "ADJP": [("r", "ADJP JJ AD"), ("r", "")],
    "ADVP": [("r", "ADVP AD CS JJ NP PP P VA VV"), ("r", "")],
    "CLP": [("r", "CLP M NN NP"), ("r", "")],
    "CP": [("r", "CP IP VP"), ("r", "")],
    "DNP": [("r", "DEG DNP DEC QP"), ("r", "")],
    "DP": [("r", "M"), ("l", "DP DT OD"), ("l", "")],
    "DVP": [("r", "DEV AD VP"), ("r", "")],
    "FRAG": [("r", "VV NR NN NT"), ("r", "")],
    "IP": [("r", "VP IP NP"), ("r", "")],
    "LCP": [("r", "LCP LC"), ("r", "")],
    "LST": [("r", "CD NP QP"), ("r", "")],
    "NP": [("r", "NP NN IP NR NT"), ("r", "")],
    "NN": [("r", "NP NN IP NR NT"), ("r", "")],
    "PP": [("l", "P PP"), ("l", "")],
    "PRN": [("l", "PU"), ("l", "")],
    "QP": [("r", "QP CLP CD"), ("r", "")],
    "UCP": [("l", "IP NP VP"), ("l", "")],
    "VCD": [("l", "VV VA VE"), ("l", "")],
    "VP": [("l", "VE VC VV VNV VPT VRD VSB VCD VP"), ("l", "")],
    "VPT": [("l", "VA VV"), ("l", "")],
    "VRD": [("l", "VV VA"), ("l", "")],
    "VSB": [("r", "VV VE"), ("r", "")],
}

# A tree, and by hand the number of each word's head. Comments say which child the rule takes, and why.
SENTENCES = [
    # ADJP: r ADJP JJ AD; r
    ("(ADJP (ADJP (JJ 大)) (CC 和) (ADJP (JJ 新)))", [3, 3, 0]),  # coordination: the last ADJP
    ("(ADJP (ADJP (JJ 大)) (JJ 新))", [2, 0]),  # JJ is further right than ADJP
    ("(ADJP (JJ 大) (AD 极))", [2, 0]),
    ("(ADJP (AD 很) (AD 更))", [2, 0]),
    ("(ADJP (NN 亚) (VA 热))", [2, 0]),  # no child is in the list: the last child
    # ADVP: r ADVP AD CS JJ NP PP P VA VV; r
    ("(ADVP (AD 也) (AD 都))", [2, 0]),
    ("(ADVP (ADVP (AD 很)) (AD 快))", [2, 0]),
    ("(ADVP (AD 就) (CS 虽然))", [2, 0]),
    ("(ADVP (CS 虽然) (JJ 全))", [2, 0]),
    ("(ADVP (JJ 全) (NP (NN 天)))", [2, 0]),
    ("(ADVP (NP (NN 天)) (PP (P 在) (NN 家)))", [2, 0, 2]),
    ("(ADVP (PP (P 在) (NN 家)) (P 从))", [3, 1, 0]),
    ("(ADVP (P 从) (VA 快))", [2, 0]),
    ("(ADVP (VA 快) (VV 看))", [2, 0]),
    ("(ADVP (VV 看) (DT 这))", [0, 1]),
    ("(ADVP (NT 日) (DT 这))", [2, 0]),
    # CLP: r CLP M NN NP; r
    ("(CLP (CLP (M 次)) (PU 、) (CLP (M 回)))", [3, 3, 0]),
    ("(CLP (CLP (M 次)) (M 个))", [2, 0]),
    ("(CLP (M 个) (NN 月))", [2, 0]),
    ("(CLP (NN 月) (NP (NN 年)))", [2, 0]),
    ("(CLP (NP (NN 年)) (CD 一))", [0, 1]),
    ("(CLP (CD 一) (JJ 大))", [2, 0]),
    # CP: r CP IP VP; r
    ("(CP (IP (VP (VV 来))) (DEC 的))", [0, 1]),
    ("(CP (CP (IP (VP (VV 来))) (DEC 的)) (SP 吗))", [0, 1, 1]),
    ("(CP (CP (IP (VP (VV 来))) (DEC 的)) (IP (VP (VV 走))))", [3, 1, 0]),
    ("(CP (IP (VP (VV 来))) (VP (VV 走)))", [2, 0]),
    ("(CP (ADVP (CS 如果)) (IP (VP (VV 来))))", [2, 0]),
    ("(CP (VP (VV 走)) (DEC 的))", [0, 1]),
    ("(CP (NP (NN 人)) (DEC 的))", [2, 0]),
    # DNP: r DEG DNP DEC QP; r
    ("(DNP (NP (NN 人)) (DEG 的))", [2, 0]),
    ("(DNP (DEG 之) (DNP (NN 人) (DEG 的)))", [3, 3, 0]),
    ("(DNP (DNP (NN 人) (DEG 的)) (DEC 的))", [2, 3, 0]),
    ("(DNP (DEC 的) (QP (CD 一)))", [2, 0]),
    ("(DNP (QP (CD 一)) (NN 人))", [0, 1]),
    ("(DNP (NN 人) (PP (P 对) (NN 己)))", [2, 0, 2]),
    # DP: r M; l DP DT OD; l. The first part knows M only: a CLP with an M in it is not one.
    ("(DP (DT 这) (M 个))", [2, 0]),
    ("(DP (M 个) (DT 这) (M 种))", [3, 3, 0]),
    ("(DP (DT 这) (CLP (M 个)))", [0, 1]),
    ("(DP (DT 这) (DP (DT 那)))", [0, 1]),
    ("(DP (DP (DT 这)) (CC 和) (DP (DT 那)))", [0, 1, 1]),  # the second part searches from the left
    ("(DP (OD 第一) (DT 这))", [0, 1]),
    ("(DP (DT 这) (DT 那))", [0, 1]),
    ("(DP (QP (CD 两)) (OD 第一))", [2, 0]),
    ("(DP (QP (CD 两)) (NN 人))", [0, 1]),
    # DVP: r DEV AD VP; r
    ("(DVP (VP (VA 快)) (DEV 地))", [2, 0]),
    ("(DVP (DEV 地) (AD 很))", [2, 0]),
    ("(DVP (AD 很) (VP (VA 快)))", [2, 0]),
    ("(DVP (VP (VA 快)) (NN 力))", [0, 1]),
    ("(DVP (NN 力) (JJ 大))", [2, 0]),
    # FRAG: r VV NR NN NT; r
    ("(FRAG (VV 看) (NR 京))", [2, 0]),
    ("(FRAG (NR 京) (NN 电))", [2, 0]),
    ("(FRAG (NN 电) (NT 日))", [2, 0]),
    ("(FRAG (NN 电) (NN 讯))", [2, 0]),
    ("(FRAG (NT 日) (CD 一))", [0, 1]),
    ("(FRAG (CD 一) (PU 。))", [2, 0]),  # punctuation is not passed over
    # IP: r VP IP NP; r
    ("(IP (NP (NN 人)) (VP (VV 来)) (NP (NN 客)))", [3, 3, 0]),
    ("(IP (VP (VV 来)) (IP (VP (VV 走))))", [2, 0]),
    ("(IP (IP (VP (VV 来))) (PU ，) (IP (VP (VV 走))))", [3, 3, 0]),
    ("(IP (IP (VP (VV 来))) (NP (NN 人)))", [2, 0]),
    ("(IP (NP (NN 人)) (PU 。))", [0, 1]),
    ("(IP (ADVP (AD 不)) (SP 吧))", [2, 0]),
    # LCP: r LCP LC; r
    ("(LCP (NP (NN 桌)) (LC 上))", [2, 0]),
    ("(LCP (LCP (NP (NN 桌)) (LC 上)) (LC 里))", [2, 3, 0]),
    ("(LCP (NN 桌) (JJ 前))", [2, 0]),
    # LST: r CD NP QP; r
    ("(LST (CD 一) (NP (NN 甲)))", [2, 0]),
    ("(LST (NP (NN 甲)) (QP (CD 一)))", [2, 0]),
    ("(LST (QP (CD 一)) (PU 、))", [0, 1]),
    ("(LST (PU （) (AD 甲) (PU ）))", [3, 3, 0]),
    # NP: r NP NN IP NR NT; r
    ("(NP (NP (NR 京)) (NN 人))", [2, 0]),
    ("(NP (NN 电) (IP (VP (VV 来))))", [2, 0]),
    ("(NP (IP (VP (VV 来))) (NR 京))", [2, 0]),
    ("(NP (NR 京) (NT 日))", [2, 0]),
    ("(NP (NN 经) (NN 济))", [2, 0]),
    ("(NP (NP (NN 工)) (PU 、) (NP (NN 农)) (CC 和) (NP (NN 商)))", [5, 5, 5, 5, 0]),
    ("(NP (NN 人) (ETC 等))", [0, 1]),
    ("(NP (NT 日) (CD 一))", [0, 1]),
    ("(NP (PN 我) (CD 一))", [2, 0]),
    # NN, where it stands for a phrase: as NP
    ("(NN (NP (NR 京)) (NN 人))", [2, 0]),
    ("(NN (NN 火) (NN 车))", [2, 0]),
    ("(NN (NN 火) (IP (VP (VV 来))))", [2, 0]),
    ("(NN (IP (VP (VV 来))) (NR 京))", [2, 0]),
    ("(NN (NR 京) (NT 日))", [2, 0]),
    ("(NN (NT 日) (CD 一))", [0, 1]),
    ("(NN (JJ 大) (M 个))", [2, 0]),
    # PP: l P PP; l
    ("(PP (P 在) (NP (NN 家)))", [0, 1]),
    ("(PP (PP (P 在) (NN 家)) (P 从))", [0, 1, 1]),
    ("(PP (PP (P 在) (NN 家)) (CC 和) (PP (P 从) (NN 校)))", [0, 1, 1, 1, 4]),
    ("(PP (P 自) (P 从))", [0, 1]),
    ("(PP (NN 家) (LC 里))", [0, 1]),
    # PRN: l PU; l
    ("(PRN (PU （) (NP (NN 注)) (PU ）))", [0, 1, 1]),
    ("(PRN (NN 注) (PU 。))", [2, 0]),
    ("(PRN (NN 注) (VV 看))", [0, 1]),
    # QP: r QP CLP CD; r
    ("(QP (QP (CD 三)) (CLP (M 个)))", [2, 0]),
    ("(QP (CD 三) (CLP (M 个)))", [2, 0]),
    ("(QP (CLP (M 个)) (CD 三))", [2, 0]),
    ("(QP (CD 三) (CD 五))", [2, 0]),
    ("(QP (CD 三) (AD 多))", [0, 1]),
    ("(QP (OD 第三) (AD 约))", [2, 0]),
    # UCP: l IP NP VP; l
    ("(UCP (NP (NN 人)) (CC 和) (IP (VP (VV 来))))", [0, 1, 1]),
    ("(UCP (IP (VP (VV 来))) (IP (VP (VV 走))))", [0, 1]),
    ("(UCP (VP (VV 来)) (NP (NN 人)))", [0, 1]),
    ("(UCP (ADJP (JJ 大)) (VP (VV 来)))", [2, 0]),
    ("(UCP (PP (P 在) (NN 家)) (ADJP (JJ 大)))", [0, 1, 1]),
    # VCD: l VV VA VE; l
    ("(VCD (VV 跑) (VV 跳))", [0, 1]),
    ("(VCD (VA 大) (VV 跑))", [0, 1]),
    ("(VCD (VE 有) (VA 大))", [0, 1]),
    ("(VCD (AD 又) (VE 有))", [2, 0]),
    ("(VCD (AD 又) (JJ 大))", [0, 1]),
    # VP: l VE VC VV VNV VPT VRD VSB VCD VP; l
    ("(VP (VC 是) (VE 有))", [0, 1]),
    ("(VP (VV 来) (VC 是))", [0, 1]),
    ("(VP (VV 想) (VP (VV 去)))", [0, 1]),
    ("(VP (VV 想) (VV 去))", [0, 1]),
    # VNV has no rule: its last child. So 来 不 来 is headed by its third word, and VNV stands before VV.
    ("(VP (VNV (VV 来) (CC 不) (VV 来)) (VV 走))", [3, 3, 0, 3]),
    # VPT takes its first VV.
    ("(VP (VPT (VV 看) (AD 不) (VV 见)) (VNV (VV 来) (CC 不) (VV 来)))", [0, 1, 1, 6, 6, 1]),
    ("(VP (VRD (VV 打) (VV 破)) (VPT (VV 看) (AD 不) (VV 见)))", [0, 1, 1, 3, 3]),
    ("(VP (VSB (VV 回) (VV 看)) (VRD (VV 打) (VV 破)))", [2, 0, 2, 3]),
    ("(VP (VCD (VV 跑) (VV 跳)) (VSB (VV 回) (VV 看)))", [0, 1, 4, 1]),
    ("(VP (VP (VV 去)) (VCD (VV 跑) (VV 跳)))", [0, 1, 2]),
    ("(VP (VP (VV 来)) (PU ，) (VP (VV 走)))", [0, 1, 1]),  # coordination: the first VP
    ("(VP (PP (P 在) (NN 家)) (VP (VV 看)))", [3, 1, 0]),
    ("(VP (BA 把) (IP (NP (NN 书)) (VP (VV 看))))", [0, 3, 1]),  # not in the list: the first child
    ("(VP (ADVP (AD 很)) (VA 大))", [0, 1]),  # VA is not in the list either
    # VPT: l VA VV; l
    ("(VPT (VV 看) (AD 不) (VA 清))", [0, 1, 1]),
    ("(VPT (VV 看) (AD 不) (VV 见))", [0, 1, 1]),
    ("(VPT (AD 不) (NN 见))", [0, 1]),
    # VRD: l VV VA; l
    ("(VRD (VV 打) (VV 破))", [0, 1]),
    ("(VRD (VA 大) (VV 出))", [0, 1]),
    ("(VRD (AD 不) (VA 大))", [2, 0]),
    ("(VRD (AD 不) (JJ 大))", [0, 1]),
    # VSB: r VV VE; r
    ("(VSB (VV 回) (VV 看))", [2, 0]),
    ("(VSB (VV 回) (VE 有))", [2, 0]),
    ("(VSB (VE 有) (AD 不))", [0, 1]),
    ("(VSB (AD 不) (JJ 大))", [2, 0]),
    # The members of a list that no sentence above chooses.
    ("(ADVP (AD 就) (ADVP (AD 快)))", [2, 0]),
    ("(LST (NP (NN 甲)) (CD 一))", [2, 0]),
    ("(QP (CD 三) (QP (CD 五)))", [2, 0]),
    ("(VPT (VA 清) (AD 不) (VV 见))", [0, 1, 1]),
    ("(VP (VE 有) (VC 是))", [0, 1]),
    ("(NN (NN 人) (NP (NR 京)))", [2, 0]),
    ("(LCP (LC 里) (LCP (NN 桌) (LC 上)))", [3, 3, 0]),
    ("(FRAG (NN 电) (VV 看))", [2, 0]),
    # Anything else: the last child, the nameless node included if it has more than one.
    ("(VCP (VV 称) (VC 为))", [2, 0]),
    ("(INTJ (IJ 啊) (IJ 呀))", [2, 0]),
    ("( (NP (NN 人)) (PU 。) )", [2, 0]),
    # A chain of single children has one head.
    ("(ROOT (IP (VP (VP (VCD (VV 来))))))", [0]),
    # Sets, not priorities: the title is a modifier, and so is the place.
    ("(NP (NP (NR 中国)) (NN 经济))", [2, 0]),
    ("(NP (NN 总统) (NR 布什))", [2, 0]),
    # Function tags and indices change nothing.
    ("(IP-HLN (NP-PN-SBJ-1 (NR-SHORT 沪)) (VP=2 (VV 来)) (NP-TMP (NT 日)))", [3, 3, 0]),
]


def tree_of(text: str) -> Tree:
    (item,) = read_brackets(io.BytesIO(text.encode()))
    return item.tree


def test_the_table_is_the_published_one():
    spelt = {
        category: "; ".join(" ".join([direction, *names.split()]) for direction, names in parts)
        for category, parts in TABLE.items()
    }
    assert spelt == HEAD_RULES


@pytest.mark.parametrize(("text", "heads"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_heads_worked_out_by_hand(text, heads):
    assert list(dependencies(tree_of(text)).heads) == heads


def test_every_part_of_the_table_has_a_sentence():
    """Record which part of its rule decided for each phrase of the sentences; every part must occur."""
    seen = set()
    for text, _ in SENTENCES:
        waiting = [tree_of(text)]
        while waiting:
            node = waiting.pop()
            waiting.extend(node.children)
            if len(node.children) > 1 and node.category in TABLE:
                chosen = node.children[naive_head(node.category, [c.category for c in node.children])]
                listed = " ".join(names for _, names in TABLE[node.category]).split()
                seen.add((node.category, chosen.category if chosen.category in listed else ""))
    wanted = {
        (category, name)
        for category, parts in TABLE.items()
        for name in [*" ".join(names for _, names in parts).split(), ""]
    }
    assert wanted - seen == set()


def naive_head(category: str, children: list[str]) -> int:
    """Rank every child by part, then distance from the side where the search begins."""

    def rank(index: int) -> tuple[int, int]:
        for part, (direction, names) in enumerate(TABLE.get(category, [("r", "")])):
            distance = index if direction == "l" else -index
            if not names or children[index] in names.split():
                return part, distance
        raise AssertionError

    return min(range(len(children)), key=rank)


CATEGORIES = sorted(
    {*TABLE, *(name for parts in TABLE.values() for _, names in parts for name in names.split())}
)


@given(
    st.sampled_from([*CATEGORIES, "VCP", ""]),
    st.lists(st.sampled_from([*CATEGORIES, "PU", "CC"]), min_size=1),
)
def test_the_search_is_the_smallest_rank(category, children):
    assert find_head(category, children) == naive_head(category, children)


TAGS = [
    "NN",
    "NR",
    "NT",
    "VV",
    "VA",
    "VC",
    "VE",
    "P",
    "AD",
    "JJ",
    "PU",
    "CC",
    "DEC",
    "DEG",
    "CD",
    "M",
    "LC",
    "BA",
]
PHRASES = [*TABLE, "VCP", "IP-HLN", "NP-SBJ", "NP-OBJ", "NP-TMP", "NP-PRD", "CP-ADV", "X"]
leaves = st.builds(
    lambda tag, word: Tree(tag, word=word), st.sampled_from(TAGS), st.sampled_from("上海计划发展")
)
phrase_trees = st.recursive(
    leaves,
    lambda children: st.builds(
        lambda label, parts: Tree(label, tuple(parts)),
        st.sampled_from(PHRASES),
        st.lists(children, min_size=1, max_size=5),
    ),
    max_leaves=25,
)


@given(phrase_trees, st.sampled_from(("malt", "functional")))
def test_every_tree_becomes_a_valid_projective_tree_whose_phrases_are_subtrees(tree, labels):
    result = dependencies(tree, labels)
    assert result.is_projective
    assert [leaf.word for leaf in tree.leaves()] == list(result.forms)
    assert set(result.deprels) <= FUNCTIONAL
    assert [r == "ROOT" for r in result.deprels] == [h == 0 for h in result.heads]

    def check(node: Tree, first: int) -> int:
        """One word of every phrase has its head outside."""
        if node.word is not None:
            return first + 1
        end = first
        for child in node.children:
            end = check(child, end)
        assert sum(not first <= h < end for h in result.heads[first - 1 : end - 1]) == 1
        return end

    check(tree, 1)


@given(phrase_trees)
def test_a_tree_is_read_back_as_it_was_written(tree):
    assert tree_of(format_tree(tree)) == tree


# A tree, and by hand the functional relation of each word.
LABELLED = [
    # 上海 is the -SBJ of the IP, 金融业 the -OBJ of the VP, 积极 modifies the verb.
    (
        "(IP (NP-PN-SBJ (NR 上海)) (VP (ADVP (AD 积极)) (VP (VV 发展) (NP-OBJ (NN 金融业)))) (PU 。))",
        "SUB VMOD ROOT OBJ P",
    ),
    # A noun phrase right of the verb without a tag is an object, with an adverbial tag it is none.
    ("(IP (VP (VV 看) (NP (NN 书))))", "ROOT OBJ"),
    ("(IP (VP (VV 看) (NP-PN (NR 红楼梦))))", "ROOT OBJ"),
    ("(IP (VP (VV 看) (NP-EXT (NN 半天))))", "ROOT VMOD"),
    ("(IP (VP (NP-TMP (NT 今天)) (VP (VV 看))))", "VMOD ROOT"),
    ("(IP (VP (VV 给) (NP-IO (PN 他)) (NP-OBJ (NN 书))))", "ROOT OBJ OBJ"),
    # Clauses as objects: the verb of the clause is the object, its own subject is SUB.
    ("(IP (VP (VV 说) (IP-OBJ (NP-SBJ (PN 他)) (VP (VV 来)))))", "ROOT SUB OBJ"),
    ("(IP (VP (VV 说) (CP-OBJ (IP (VP (VV 来))) (SP 吗))))", "ROOT OBJ VMOD"),
    # The object of 把 is a clause.
    ("(VP (BA 把) (IP-OBJ (NP-SBJ (NN 书)) (VP (VV 看))))", "ROOT SUB OBJ"),
    ("(IP (NP-SBJ (PN 他)) (VP (VC 是) (NP-PRD (NN 学生))))", "SUB ROOT PRD"),
    # Verb after verb is a chain; with a comma or a conjunction between, it is coordination.
    ("(IP (VP (VV 应该) (ADVP (AD 马上)) (VP (VV 去))))", "ROOT VMOD VC"),
    ("(VP (VRD (VV 打) (VV 破)))", "ROOT VC"),
    ("(VP (VP (VV 唱)) (PU ，) (VP (VV 跳)))", "ROOT P VMOD"),
    ("(VP (VP (VV 唱)) (CC 和) (VP (VV 跳)))", "ROOT VMOD VMOD"),
    # A relative clause is a complementizer phrase.
    ("(NP (CP (IP (VP (VV 写))) (DEC 的)) (NP (NN 书)))", "SBAR VMOD ROOT"),
    # A clause below a complementizer.
    ("(DNP (IP (VP (VV 写))) (DEC 的))", "SBAR ROOT"),
    # Modifiers are named after their head: a noun, a preposition, an adjective, a measure word, anything else.
    ("(NP (ADJP (JJ 新)) (NP (NN 书)))", "NMOD ROOT"),
    ("(PP (P 在) (NP (NN 家)))", "ROOT PMOD"),
    ("(ADJP (ADVP (AD 很)) (JJ 新))", "AMOD ROOT"),
    ("(QP (CD 三) (CLP (M 个)))", "AMOD ROOT"),
    ("(DNP (NP (NN 人)) (DEG 的))", "DEP ROOT"),
    ("(LCP (NP (NN 桌)) (LC 上))", "DEP ROOT"),
    # The head of a parenthetical is its first mark; the rest depends on the mark.
    ("(NP (NP (NN 书)) (PRN (PU （) (NP (NN 新版)) (PU ）)))", "ROOT PRN DEP P"),
]


@pytest.mark.parametrize(("text", "relations"), LABELLED, ids=[text for text, _ in LABELLED])
def test_relations_worked_out_by_hand(text, relations):
    assert " ".join(dependencies(tree_of(text), "functional").deprels) == relations


def test_every_functional_relation_has_a_sentence():
    assert {relation for _, relations in LABELLED for relation in relations.split()} == FUNCTIONAL


# The two training sentences in the paper's release, and their brackets. Their labels show that function tags do not
# matter and that the phrase decides.
SHOWN = [
    (
        (
            "(IP-HLN (NP-PN-SBJ (NR 法)) (VP (ADVP (AD 正)) (VP (VV 研究) (NP-OBJ (CP-APP (IP "
            "(NP-SBJ (-NONE- *pro*)) (VP (PP-DIR (P 从) (NP-PN (NR 波黑))) (VP (VV 撤军))))) (NP (NN 计划))))))"
        ),
        "法 3 VMOD 正 3 VMOD 研究 0 ROOT 从 6 VMOD 波黑 4 PMOD 撤军 7 NMOD 计划 3 VMOD",
    ),
    (
        "(FRAG (NR 新华社) (NR 巴黎) (NT ９月) (NT １日) (NN 电) (PU （) (NN 记者) (NR 张有浩) (PU ）))",
        "新华社 8 DEP 巴黎 8 DEP ９月 8 DEP １日 8 DEP 电 8 DEP （ 8 P 记者 8 DEP 张有浩 0 ROOT ） 8 P",
    ),
]


@pytest.mark.parametrize(("text", "rows"), SHOWN, ids=["headline", "dateline"])
def test_the_sentences_that_the_release_shows(text, rows):
    tree = remove_empty(tree_of(text))
    result = dependencies(tree)
    columns = zip(result.forms, map(str, result.heads), result.deprels, strict=True)
    assert " ".join(" ".join(row) for row in columns) == rows


# A tree, and by hand the default relation of each word.
BY_PHRASE = [
    ("(IP (NP-SBJ (PN 他)) (VP (VC 是) (NP-PRD (NN 学生))))", "VMOD ROOT VMOD"),
    ("(NP (CP (IP (VP (VV 写))) (DEC 的)) (NP (NN 书)))", "NMOD VMOD ROOT"),
    ("(VP (VRD (VV 打) (VV 破)))", "ROOT VMOD"),
    ("(ADJP (ADVP (AD 很)) (JJ 新))", "AMOD ROOT"),
    ("(QP (CD 三) (CLP (M 个)))", "NMOD ROOT"),
    ("(LCP (NP (NN 桌)) (LC 上))", "PMOD ROOT"),
    ("(UCP (NP (NN 人)) (CC 和) (IP (VP (VV 来))))", "ROOT DEP DEP"),
    # A parenthetical is headed by its first mark.
    ("(NP (NP (NN 书)) (PRN (PU （) (NP (NN 新版)) (PU ）)))", "ROOT P DEP P"),
]


@pytest.mark.parametrize(("text", "relations"), BY_PHRASE, ids=[text for text, _ in BY_PHRASE])
def test_relations_by_phrase_worked_out_by_hand(text, relations):
    assert " ".join(dependencies(tree_of(text)).deprels) == relations
