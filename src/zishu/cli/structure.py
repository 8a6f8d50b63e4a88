"""`zishu structure`: print the trees inside words. The work is done in `zishu.parser` and `zishu.structures`."""

from __future__ import annotations

from typing import Annotated

import typer

from zishu.cli._options import ModelOption


def structure_command(
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Words of Chinese characters.")],
    model: ModelOption = None,
) -> None:
    """Print how words are formed.

    Prints their parts, the relation between these, the tree, and its probability. The words are analysed without
    context. `zishu parse` finds the structures of words in context.
    """
    from zishu.errors import InputError
    from zishu.model.model import Model
    from zishu.parser import load
    from zishu.structures import formation

    parser = load(model)
    if not isinstance(parser.model, Model) or parser.model.networks.structures is None:
        raise InputError(
            f"{parser.path}: the model has no structure scorer; `zishu train-structures` adds one"
        )
    for sentence in parser.parse_words([[word] for word in words]):
        word = sentence[0]
        if word.char_heads is None or word.char_rels is None or word.structure_prob is None:
            typer.echo(f"{word.form}: no structure, because not all its characters are Chinese")
            continue
        arcs = " ".join(
            f"{head}:{relation}" if head else "0"
            for head, relation in zip(word.char_heads, word.char_rels, strict=True)
        )
        text = formation(word.chars, word.char_heads, word.char_rels)
        typer.echo(f"{word.form}: {text}  {arcs}  {word.structure_prob:.2f}")
