"""Write a study to analysis.json and read it back, so that tables and figures can be redrawn without models.

The file holds the numbers that people read (means, shares) next to the counts behind them. Only the counts, the values
of each seed and the examples are read back; everything else is computed from them.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zishu.analysis.structures import Heads, draw_structure, leftward_share, read_drawing
from zishu.analysis.study import STRUCTURE_LENGTHS, Attachment, Matches, StudiedSystem, Study
from zishu.errors import InputError
from zishu.metrics import Average
from zishu.tree import projective_trees

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def study_to_dict(study: Study) -> dict[str, Any]:
    """Convert a study to plain objects for JSON."""
    return {
        "signature": study.signature,
        "sentences": study.sentences,
        "words": study.words,
        "count": study.count,
        "systems": {name: _system_to_dict(system) for name, system in study.systems.items()},
        "reference": None if study.reference is None else _reference_to_dict(study.reference),
        "structures": {str(length): _shares_to_dict(study, length) for length in STRUCTURE_LENGTHS},
    }


def study_from_dict(data: Mapping[str, Any]) -> Study:
    """Rebuild the study that `study_to_dict` converted."""
    shares = data["structures"]
    reference = data["reference"]
    return Study(
        sentences=data["sentences"],
        words=data["words"],
        count=data.get("count", "tokens"),
        by_length={length: shares[str(length)]["words"] for length in STRUCTURE_LENGTHS},
        systems={name: _system_from_dict(system) for name, system in data["systems"].items()},
        reference=None if reference is None else _counts_from_dict(reference["structures"]),
        examples={tuple(row["heads"]): row["example"] for at in shares.values() for row in at["shares"]},
        signature=data["signature"],
    )


def read_study(path: Path) -> Study:
    """Read analysis.json; raise `InputError` if it is not a study."""
    try:
        return study_from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        raise InputError(f"{path}: not an analysis written by `zishu analyse`") from error


def _shares_to_dict(study: Study, length: int) -> dict[str, Any]:
    rows = [
        {
            "heads": list(heads),
            "drawing": draw_structure(heads),
            "example": study.examples[heads],
            "systems": {name: _average(system.share(heads)) for name, system in study.systems.items()},
            "reference": study.reference_share(heads),
        }
        for heads in study.structures(length)
    ]
    return {"words": study.by_length[length], "possible": len(projective_trees(length)), "shares": rows}


def _system_to_dict(system: StudiedSystem) -> dict[str, Any]:
    return {
        "models": list(system.runs),
        "leftward": _average(system.leftward),
        "matches": {
            name: {
                **asdict(found),
                "by_seed": list(found.by_seed),
                "cm": _average(found.cm),
                "m1": found.many_to_one,
            }
            for name, found in system.matches.items()
        }
        or None,
        "uas_by_length": {
            length: {"words": at.words, "uas": _average(at.uas)} for length, at in system.attachment.items()
        },
        "scores": {name: _average(score) for name, score in system.scores.items()},
        "structures": [_counts_to_dict(counts) for counts in system.counts],  # words of any length, by seed
    }


def _system_from_dict(data: Mapping[str, Any]) -> StudiedSystem:
    return StudiedSystem(
        runs=tuple(data["models"]),
        counts=tuple(_counts_from_dict(counts) for counts in data["structures"]),
        attachment={
            length: Attachment(at["words"], at["uas"] and Average(tuple(at["uas"]["seeds"])))
            for length, at in data["uas_by_length"].items()
        },
        scores={name: Average(tuple(score["seeds"])) for name, score in data["scores"].items()},
        matches={
            name: Matches(found["words"], tuple(found["by_seed"]), found["by_any"])
            for name, found in (data["matches"] or {}).items()
        },
    )


def _average(average: Average | None) -> dict[str, Any] | None:
    return None if average is None else average.as_dict()


def _reference_to_dict(reference: Counter[Heads]) -> dict[str, Any]:
    entries = Counter(len(heads) for heads in reference.elements())
    return {
        "entries": sum(entries.values()),
        "by_length": {str(length): entries[length] for length in STRUCTURE_LENGTHS},
        "leftward": leftward_share(reference),
        "structures": _counts_to_dict(reference),
    }


def _counts_to_dict(counts: Counter[Heads]) -> dict[str, int]:
    return {
        draw_structure(heads): count
        for heads, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    }


def _counts_from_dict(data: Mapping[str, int]) -> Counter[Heads]:
    return Counter({read_drawing(drawing): count for drawing, count in data.items()})
