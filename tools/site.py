"""Build the documentation site: the pages that are generated, and links that leave the folder docs/.

MkDocs calls the functions `on_*` (mkdocs.yml names this file under `hooks`). They add

- the reference of the command line, from the commands' own signatures,
- the reference of configuration keys, from the fields and docstrings of `zishu.train.config`,
- the cards of the bundled models, CONTRIBUTING.md, CHANGELOG.md and SECURITY.md, which are not in docs/.

Links in the sources are relative to the file, so they work in a clone. On the site, a link to a file that has a page
becomes a link to that page, and a link to any other file becomes an address below the project's URL in pyproject.toml.
The finished site must not load anything from another host; `on_post_build` checks that.
"""

from __future__ import annotations

import ast
import html
import inspect
import json
import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from zishu.cli import make_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]

# Files of the repository that are pages of the site, under another name.
ELSEWHERE = {
    "src/zishu/models/default/README.md": "models/default.md",
    "src/zishu/models/fast/README.md": "models/fast.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
# Sources of generated pages: a link to the source becomes a link to the page.
SOURCES = {"src/zishu/cli/__init__.py": "commands.md", "src/zishu/train/config.py": "configuration.md"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
EXTERNAL = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^\"'> ]*")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "commands.md", content="\n".join(command_reference())))
    files.append(File.generated(config, "configuration.md", content="\n".join(configuration_reference())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turn links to files of the repository into links of the site, or into addresses."""
    path = page.file.src_uri
    home = next((source for source, uri in ELSEWHERE.items() if uri == path), f"docs/{path}")
    # Word structures such as [[吃 喝] [玩 乐]] are not links.
    markdown = re.sub(r"\] \[(?=[\u4e00-\u9fff])", r"] \\[", markdown)
    return LINK.sub(lambda match: target(match[1], home, path) + (match[2] or ""), markdown)


def target(link: str, home: str, page: str) -> str:
    """Return what a link in the file `home`, shown as the page `page`, becomes on the site."""
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(home), link))
    pages = ELSEWHERE | SOURCES
    uri = pages.get(wanted, wanted.removeprefix("docs/") if wanted.startswith("docs/") else "")
    if uri and (wanted in pages or re.fullmatch(r"[^/]+\.md|images/.+", uri)):
        return posixpath.relpath(uri, posixpath.dirname(page) or ".")
    if (ROOT / wanted).exists():
        return f"{REPOSITORY}/{'tree' if (ROOT / wanted).is_dir() else 'blob'}/HEAD/{wanted}"
    return link  # a broken link: MkDocs names it, and stops


def on_post_build(config: MkDocsConfig) -> None:
    """Stop if a page loads anything from another host: visits to the site are private."""
    for path in Path(config.site_dir).rglob("*.html"):
        for found in EXTERNAL.findall(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path.name} loads something from another host: {found}")


def command_reference() -> Iterator[str]:
    """Yield the lines of the page about the command line."""
    yield "# Command line\n"
    yield "Bad input or usage is one line on standard error and exit code 2. Any other failure is exit code 1, and"
    yield "an interruption 130. `zishu COMMAND --help` prints what this page says.\n"
    root: Any = typer.main.get_command(make_app())  # a group of Click, or of the copy of it inside Typer
    context = root.context_class(root, info_name="zishu")
    for name in sorted(root.list_commands(context)):
        command = root.get_command(context, name)
        if hasattr(command, "list_commands"):
            inner = command.context_class(command, parent=context, info_name=name)
            yield f"## zishu {name}\n\n{help_text(command)}\n"
            for part in sorted(command.list_commands(inner)):
                yield from one_command(command.get_command(inner, part), part, inner, "###")
        else:
            yield from one_command(command, name, context, "##")


def one_command(command: Any, name: str, parent: Any, level: str) -> Iterator[str]:
    """Yield the section of one command: usage, help, arguments and options."""
    context = command.context_class(command, parent=parent, info_name=name)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"{level} {context.command_path}\n\n    {usage}\n\n{help_text(command)}\n"
    rows = [row for parameter in command.get_params(context) if (row := described(parameter, context))]
    if rows:
        yield "| | |\n|---|---|"
        for what, text in rows:
            yield f"| {code(what)} | {cell(text)} |"
        yield ""


def described(parameter: Any, context: Any) -> tuple[str, str] | None:
    """Return how an argument or option is written, and its help; nothing for hidden ones and --help."""
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return parameter.make_metavar(context), getattr(parameter, "help", None) or ""
    return record[0], record[1]


def help_text(command: Any) -> str:
    """Return the help of a command as paragraphs; indented blocks stay as they are."""
    return re.sub(r"(?m)^\b$", "", inspect.cleandoc(command.help or "")).replace("\b\n", "")


def configuration_reference() -> Iterator[str]:
    """Yield the lines of the page about configuration keys."""
    source = (ROOT / "src/zishu/train/config.py").read_text(encoding="utf-8")
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    yield "# Configuration keys\n"
    yield "A training run is one TOML file. [Training](training.md#configurations) explains how files extend each other"
    yield "and how `--set section.key=value` overrides a key. Every key is checked before anything is read. A key without"
    yield "a default is required.\n"
    yield "## Top of the file\n"
    keys = list(fields_of(classes["Config"]))
    yield from key_table([key for key in keys if key[1] not in classes])
    for name, kind, _, _ in keys:
        if kind in classes:
            summary = (ast.get_docstring(classes[kind]) or "").replace(f": `[{name}]`", "")
            yield f"## [{name}]\n\n{summary}\n"
            yield from key_table(list(fields_of(classes[kind])))


def fields_of(node: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and docstring of the fields of a dataclass."""
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = inspect.cleandoc(str(after.value.value)) if documented else ""
            yield field.target.id, ast.unparse(field.annotation), default_of(field.value), text


def default_of(value: ast.expr | None) -> str:
    """Return the default of a field as TOML writes it."""
    if isinstance(value, ast.Constant):
        return json.dumps(value.value)
    return "" if value is None else "{}"  # a table: a section, or one by style


def key_table(keys: list[tuple[str, str, str, str]]) -> Iterator[str]:
    """Yield a table of keys."""
    yield "| key | default | |\n|---|---|---|"
    for name, _, default, text in keys:
        yield f"| `{name}` | {code(default)} | {cell(text)} |"
    yield ""


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    return f"<code>{html.escape(text)}</code>".replace("|", "&#124;") if text else ""


def cell(text: str) -> str:
    """Return a text as one cell of a table."""
    return " ".join(text.split()).replace("|", "&#124;").replace("<", "&lt;")
