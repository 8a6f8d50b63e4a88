"""Find the files of a Penn Chinese Treebank, and define which are for training, development and test.

Splits are lists of file numbers, from the papers that the paper follows (Section 4). `5-dep` is the split of Zhang and
Clark (2008) for dependency parsing with given words. It is as common for version 5 but is not the paper's.

The treebank is licensed by the LDC. None of it is included here; these functions look into the user's copy.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PARTS = ("train", "dev", "test")

SPLITS: dict[str, dict[str, str]] = {
    "5": {
        "train": "1-270, 400-931, 1001-1151",
        "dev": "301-325",
        "test": "271-300",
    },
    "5-dep": {
        "train": "1-815, 1001-1136",
        "dev": "886-931, 1148-1151",
        "test": "816-885, 1137-1147",
    },
    "6": {
        "train": "81-325, 400-454, 500-554, 590-596, 600-885, 900, 1001-1017, 1019, 1021-1035, 1037-1043, 1045-1059,"
        " 1062-1071, 1073-1078, 1100-1117, 1130-1131, 1133-1140, 1143-1147, 1149-1151, 2000-2139, 2160-2164,"
        " 2181-2279, 2311-2549, 2603-2774, 2820-3079",
        "dev": "41-80, 1120-1129, 2140-2159, 2280-2294, 2550-2569, 2775-2799, 3080-3109",
        "test": "1-40, 901-931, 1018, 1020, 1036, 1044, 1060-1061, 1072, 1118-1119, 1132, 1141-1142, 1148, 2165-2180,"
        " 2295-2310, 2570-2602, 2800-2819, 3110-3145",
    },
    "7": {
        "train": "81-143, 175-202, 234-270, 429-454, 500-554, 590, 593-596, 600-612, 618-642, 674-885, 1001-1008,"
        " 1021, 1037-1043, 1045-1059, 1062-1071, 1073-1117, 1130-1131, 1133-1140, 1143-1147, 1149-1151, 2011-2109,"
        " 2221-2269, 2331-2509, 2641-2759, 2846-3039, 4000-4029, 4071-4083, 4088-4089, 4092-4095, 4098-4105,"
        " 4116-4117, 4122-4126, 4129-4131, 4140-4157, 4170-4187, 4190-4195, 4262-4320, 4323-4333, 4338-4399",
        "dev": "41-80, 203-233, 301-325, 400-409, 591, 613-617, 643-673, 1022-1035, 1120-1129, 2110-2159, 2270-2294,"
        " 2510-2569, 2760-2799, 3040-3109, 4040-4059, 4084-4085, 4090, 4096, 4106-4108, 4113-4115, 4121, 4128, 4132,"
        " 4135, 4158-4162, 4169, 4189, 4196, 4236-4261, 4322, 4335-4336, 4407-4411",
        "test": "1-40, 144-174, 271-300, 410-428, 592, 900-931, 1009-1020, 1036, 1044, 1060-1061, 1072, 1118-1119,"
        " 1132, 1141-1142, 1148, 2000-2010, 2160-2220, 2295-2330, 2570-2640, 2800-2845, 3110-3145, 4030-4039,"
        " 4060-4070, 4086-4087, 4091, 4097, 4109-4112, 4118-4120, 4127, 4133-4134, 4136-4139, 4163-4168, 4188,"
        " 4197-4235, 4321, 4334, 4337, 4400-4406",
    },
}

# Number of sentences in the paper (Table 5). It has none for 5-dep.
PUBLISHED: dict[str, dict[str, int]] = {
    "5": {"train": 18_104, "dev": 352, "test": 348},
    "6": {"train": 23_420, "dev": 2_079, "test": 2_796},
    "7": {"train": 31_112, "dev": 10_043, "test": 10_292},
}


# Where releases of the treebank keep their trees. UTF-8 comes first, because some releases have two encodings.
FOLDERS = (
    *("data/utf8/bracketed", "data/utf-8/bracketed", "utf8/bracketed", "utf-8/bracketed"),
    *("data/bracketed", "bracketed", "."),
)
# Version 5 has names like chtb_001.fid, version 6 chtb_0001.fid, later ones chtb_0001.nw.bracketed or chtb_0001.nw.
_FILE = re.compile(r"chtb_(\d{3,4})(\.[a-z]{2})?(\.fid|\.bracketed)?", re.IGNORECASE)


def file_numbers(version: str, part: str) -> list[int]:
    """Return the file numbers of one part of a split, in order."""
    if version not in SPLITS:
        raise InputError(f"no split for version {version!r}: choose from {', '.join(SPLITS)}")
    numbers: list[int] = []
    for piece in SPLITS[version][part].split(","):
        first, _, last = piece.strip().partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def as_ranges(numbers: Iterable[int]) -> list[str]:
    """Write sorted numbers as ranges, as in the table above."""
    ordered = sorted(numbers)
    breaks = [k for k, (left, right) in enumerate(pairwise(ordered), start=1) if right != left + 1]
    runs = [ordered[start:end] for start, end in pairwise([0, *breaks, len(ordered)]) if end > start]
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]


def find_files(directory: Path) -> dict[int, Path]:
    """Return the bracketed files of a copy of the treebank by number, in order."""
    if not directory.is_dir():
        raise InputError(f"{directory}: not a directory")
    for folder in FOLDERS:
        if files := numbered_files(directory / folder):
            return files
    # A copy may have an extra folder around it, or the user may name the folder above.
    nested = sorted(path for path in directory.rglob("bracketed") if path.is_dir() and numbered_files(path))
    unicode = [path for path in nested if {"utf8", "utf-8"} & {part.lower() for part in path.parts}]
    choice = unicode if len(unicode) == 1 else nested
    if len(choice) > 1:
        raise InputError(f"{directory}: several folders of trees, choose one: {', '.join(map(str, choice))}")
    if not choice:
        raise InputError(
            f"{directory}: no files like chtb_001.fid or chtb_0001.nw.bracketed, here or in subfolders"
        )
    return numbered_files(choice[0])


def numbered_files(folder: Path, pattern: re.Pattern[str] = _FILE) -> dict[int, Path]:
    """Return the files of a folder whose names match, by the number in their names; two with one number are an error."""
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (match := pattern.fullmatch(path.name)) and path.is_file():
            number = int(match[1])
            if number in files:
                raise InputError(f"{folder}: {files[number].name} and {path.name} have the same number")
            files[number] = path
    return dict(sorted(files.items()))
