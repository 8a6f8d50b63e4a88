"""Build a typed character tree action by action: the arc-standard transition system over characters.

This follows Hatori and others (2012) and Zhang and others (2014): one automaton builds words and their tree from left
to right. A state has a stack of subtrees and the remaining characters. The subtrees of the word being built are on top
of the stack; arcs between words touch a word only after it is complete.

    BEGIN         shift the next character as the first one of a word       no word is open
    APPEND        shift the next character into the open word               a word is open
    INTRA_LEFT    the top of the stack takes the one below as dependent     both are subtrees of the open word
    INTRA_RIGHT   the one below takes the top as dependent                  both are subtrees of the open word
    END           complete the open word ("pop word")                       it is one subtree
    INTER_LEFT    the top takes the one below as dependent                  no word is open
    INTER_RIGHT   the one below takes the top as dependent                  no word is open

The last subtree depends on ROOT. Every word is contiguous and has one root, which takes all dependents of the word. So
every tree is legal by construction, and known gaps only forbid APPEND (BREAK) or END (JOIN). A sentence of n characters
and m words takes 2n - 1 + m actions.

States are small and immutable and share their stacks, so a beam is cheap. This module has no scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from zishu.gaps import BREAK, JOIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BEGIN: Final = 0
APPEND: Final = 1
INTRA_LEFT: Final = 2
INTRA_RIGHT: Final = 3
END: Final = 4
INTER_LEFT: Final = 5
INTER_RIGHT: Final = 6
ACTIONS: Final = 7
FEATURES: Final = 5  # number of positions in `State.features`
LEAK: Final = 0.1  # negative slope of the leaky ReLU in the network that scores actions

# The character on top of a stack and the stack below it; None is the empty stack.
Stack = tuple[int, "Stack"] | None


class State(NamedTuple):
    """Hold a partial analysis of characters 1..n."""

    following: int = 1  # the next character; n + 1 if none is left
    stack: Stack = None
    open: int = 0  # number of subtrees of the open word, on top of the stack
    start: int = 0  # its first character; 0 if no word is open

    def legal(self, n: int, gaps: Sequence[int] | None = None) -> list[int]:
        """Return the legal actions; empty if the analysis is finished."""
        left = self.following <= n
        if not self.open:
            several = self.stack is not None and self.stack[1] is not None
            return [BEGIN] * left + [INTER_LEFT, INTER_RIGHT] * several
        gap = gaps[self.following - 1] if gaps is not None and left and self.following > 1 else None
        actions = [APPEND] if left and gap != BREAK else []
        if self.open > 1:
            actions += [INTRA_LEFT, INTRA_RIGHT]
        elif not left or gap != JOIN:
            actions.append(END)
        return actions

    def arc(self, action: int) -> tuple[int, int] | None:
        """Return the dependent and the head of the arc that an action makes, if any."""
        if action in (BEGIN, APPEND, END):
            return None
        assert self.stack is not None
        assert self.stack[1] is not None
        top, below = self.stack[0], self.stack[1][0]
        return (below, top) if action in (INTRA_LEFT, INTER_LEFT) else (top, below)

    def step(self, action: int) -> State:
        """Return the state after a legal action."""
        following, stack, open_, start = self
        if action == BEGIN:
            return State(following + 1, (following, stack), 1, following)
        if action == APPEND:
            return State(following + 1, (following, stack), open_ + 1, start)
        if action == END:
            return State(following, stack, 0, 0)
        arc = self.arc(action)
        assert arc is not None
        assert stack is not None
        assert stack[1] is not None
        kept = (arc[1], stack[1][1])
        return State(following, kept, open_ - 1 if open_ else 0, start)

    def features(self, n: int) -> tuple[int, ...]:
        """Return the characters used as features: three of the stack, the next, the open word's first; 0 if absent."""
        tops = [0, 0, 0]
        stack = self.stack
        for k in range(3):
            if stack is not None:
                tops[k], stack = stack
        return (*tops, self.following if self.following <= n else 0, self.start)


def oracle(heads: Sequence[int], intra: Sequence[bool]) -> Iterator[tuple[State, int]]:
    """Yield the states and actions that build a legal projective typed tree; heads[0] belongs to character 1."""
    n = len(heads)
    waiting = [0] * (n + 1)  # number of dependents that a character still has to take
    for h in heads:
        waiting[h] += 1
    state = State()
    while actions := state.legal(n):
        action = _right(state, heads, intra, waiting, actions)
        arc = state.arc(action)
        if arc is not None:
            waiting[arc[1]] -= 1
        yield state, action
        state = state.step(action)


def _right(
    state: State, heads: Sequence[int], intra: Sequence[bool], waiting: Sequence[int], actions: Sequence[int]
) -> int:
    """Choose the action that leads to the tree: an arc as soon as its dependent is complete, otherwise a shift."""
    for action in actions:
        arc = state.arc(action)
        if arc is not None and heads[arc[0] - 1] == arc[1] and not waiting[arc[0]]:
            return action
    if not state.open:
        return BEGIN
    if state.open == 1 and END in actions:
        # The word is complete if no following character belongs to it.
        assert state.stack is not None
        following = state.following
        if following > len(heads) or _top(following, heads, intra) != _top(state.start, heads, intra):
            return END
    return APPEND


def _top(character: int, heads: Sequence[int], intra: Sequence[bool]) -> int:
    while intra[character - 1]:
        character = heads[character - 1]
    return character


def replay(n: int, actions: Iterable[int]) -> tuple[list[int], list[bool]]:
    """Return heads and roles of characters 1..n after a complete analysis; ROOT's child has the head 0."""
    heads, intra = [0] * n, [False] * n
    state = State()
    for action in actions:
        arc = state.arc(action)
        if arc is not None:
            heads[arc[0] - 1] = arc[1]
            intra[arc[0] - 1] = bool(state.open)
        state = state.step(action)
    return heads, intra
