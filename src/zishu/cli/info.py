"""`zishu info`: describe a model, its origin and its scores, from the files in its directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zishu.cli._options import JsonOption
from zishu.cli._table import print_json
from zishu.errors import InputError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def info_command(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="Model directory, or the name of a bundled model; without it, `default`."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Describe a model.

    Prints its task, labels and sizes, its training data and scores, and its model card.
    """
    from zishu.model.files import find_model

    folder = find_model(model)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model")
    found = describe(folder)
    if as_json:
        print_json(found)
        return
    typer.echo(printable("\n".join(lines(found))))
    if found["card"]:
        typer.echo(f"\n{printable(found['card'].strip())}")


def describe(folder: Path, *, part: bool = False) -> dict[str, Any]:
    """Read the description of a model from its directory; raise `InputError` if a file is invalid."""
    from zishu.model.files import CARD, LARGEST_JSON, read_file
    from zishu.model.settings import part_names, read_settings

    settings = read_settings(folder, part=part)
    files = {file.name: file.stat().st_size for file in sorted(folder.iterdir()) if file.is_file()}
    card = folder / CARD
    return {
        "path": str(folder),
        **settings.to_json(),
        "vocabulary": _vocabulary(folder),
        "files": files,
        "parts": {name: describe(folder / name, part=True) for name in part_names(folder, settings.task)},
        "card": read_file(card, LARGEST_JSON).decode("utf-8", "replace") if card.is_file() else "",
    }


def _vocabulary(folder: Path) -> dict[str, int]:
    from zishu.model.files import BIGRAMS, CHARS, read_json
    from zishu.model.vocabulary import Vocabulary

    return {
        name.removesuffix(".json"): len(Vocabulary.from_json(read_json(folder / name)))
        for name in (CHARS, BIGRAMS)
        if (folder / name).is_file()
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """Format a description as lines: names left-aligned, then values."""
    rows = [*_rows(found)]
    width = max(len(name) for name, _ in rows)
    return [f"{name:{width}}  {value}".rstrip() for name, value in rows]


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    training = found["training"]
    config = training.get("config", {})
    yield "model", found["name"] or "(no name)"
    yield "directory", found["path"]
    yield "made by", f"zishu {found['version']}" if found["version"] else "unknown"
    yield "task", f"{found['task']}, {found['roles']} roles" if found["task"] == "parse" else found["task"]
    if found["styles"]:
        yield "styles", " ".join(found["styles"])
    if found["encoder"]:
        yield "encoder", found["encoder"]
    if found["vocabulary"]:
        yield "vocabulary", ", ".join(f"{size:,} {name}" for name, size in found["vocabulary"].items())
    if found["labels"]:
        yield f"{len(found['labels'])} labels", " ".join(found["labels"])
    if found["task"] in ("parse", "parse-words"):
        titles = {
            "upos": "parts of speech",
            "xpos": "XPOS tags",
            "feats": "values of FEATS",
            "lemma": "lemma rules",
        }
        for column, title in titles.items():
            if found[column]:
                yield f"{len(found[column])} {title}", " ".join(found[column])
        for style, columns in found["absent_tags"].items():
            yield f"empty in {style}", " ".join(columns)
        if found["beam"]:
            yield "probabilities", f"from its beam of {found['beam']} analyses"
        else:
            temperatures = (
                f"of relations {found['label_temperature']}, of parts of speech {found['upos_temperature']}"
            )
            yield "temperature", f"{found['temperature']}, {temperatures}"
    yield "size", f"{sum(found['files'].values()) / 1e6:.1f} MB"
    data = config.get("data", {}) if isinstance(config, dict) else {}
    data = data if isinstance(data, dict) else {}
    for part in ("train", "dev", "test"):
        files = data.get(part)
        for style, names in files.items() if isinstance(files, dict) else [("", files)]:
            if names:
                shown = " ".join(map(str, names)) if isinstance(names, list) else str(names)
                yield f"{part} data {style}".rstrip(), shown
    scored = {
        name: scores for name, scores in training.items() if name != "config" and isinstance(scores, dict)
    }
    for name, scores in scored.items():
        # An 8-bit model also has its dev scores before and after the conversion.
        part = f"dev in {name}" if name in ("float32", "int8") else name.replace("_", " ")
        yield f"scores on {part}", "  ".join(f"{key} {value}" for key, value in scores.items())
    if scored:
        yield "scores are by", "the paper's decoding; `zishu eval --model` uses the default decoding"
    for name in ("seed", "best_epoch"):
        if name in training:
            yield name.replace("_", " "), str(training[name])
    for part, inner in found["parts"].items():
        yield "", ""
        yield part, ""
        yield from _rows(inner)
