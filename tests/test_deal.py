from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zishu.deal import deal


@given(st.lists(st.integers(1, 300)), st.integers(1, 8))
def test_every_item_is_dealt_once_and_the_parts_cost_about_the_same(costs: list[int], parts: int) -> None:
    dealt = deal(costs, parts)
    assert len(dealt) == parts
    assert sorted(item for part in dealt for item in part) == list(range(len(costs)))
    loads = [sum(costs[item] for item in part) for part in dealt]
    # If a part had more than that, its last item would have gone to another part.
    assert max(loads) - min(loads) <= max(costs, default=0)
