"""Writes docs/reference from the code: the commands, the Python API, and the messages of errors.

python scripts/reference.py

What people should do about an error, and what arguments are, is written by hand in scripts/reference.yaml.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import yaml
from messages import Message, errors, messages

from drom_net.cli import EXIT_CODES
from drom_net.cli.commands import BY_HEADING

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))

# Commands -----------------------------------------------------------------------------------------


def cli_page() -> str:
    parts = [DATA["cli"]]
    for heading, members in BY_HEADING.items():
        parts.append(f"## {heading}")
        for member in members:
            parts += _command(member, f"drom-net {member.name}")
            for name, child in (member.commands if isinstance(member, click.Group) else {}).items():
                parts += _command(child, f"drom-net {member.name} {name}")
    return "\n\n".join(parts) + "\n"


def _command(command: click.Command, name: str) -> list[str]:
    purpose, *more = inspect.cleandoc(command.help or "").split("\n\n")
    blocks = [part.removeprefix("\b\n").partition("\n") for part in more if part.startswith("\b")]
    prose = [part for part in more if not part.startswith("\b")]
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    options = [_option(param) for param in command.params if isinstance(param, click.Option)]
    words = [name, *["[OPTIONS]"] * bool(options), *map(_shown, arguments)]
    words += ["COMMAND"] * isinstance(command, click.Group)
    listed = [f"- `{_plain(param)}`: {_meaning(name, param)}" for param in arguments]
    head = ["| option | value | meaning |", "| --- | --- | --- |"]
    return [
        *(f"### {name}", purpose, _code(" ".join(words)), *prose),
        *(["\n".join(listed)] if listed else []),
        *(["\n".join([*head, *options])] if options else []),
        *(part for label, _, lines in blocks for part in (label, _code(textwrap.dedent(lines)))),
    ]


def _plain(argument: click.Argument) -> str:
    return (argument.metavar or argument.name or "").upper().strip("[].")


def _shown(argument: click.Argument) -> str:
    word = f"{_plain(argument)}{'...' * (argument.nargs < 0)}"
    return word if argument.required else f"[{word}]"


def _meaning(command: str, argument: click.Argument) -> str:
    if isinstance(argument.type, click.Choice):
        return _any_of(argument.type)
    variable = f" (`{argument.envvar}`)" if argument.envvar else ""
    known, word = DATA["arguments"], _plain(argument)
    return f"{known.get(f'{command} {word}') or known[word]}{variable}"


def _any_of(choice: Any) -> str:
    *others, last = map(str, choice.choices)
    return f"{', '.join(others)} or {last}" if others else last


def _option(option: click.Option) -> str:
    kind = option.type
    if option.is_flag:
        value = ""
    elif isinstance(kind, click.Choice):
        value = _any_of(kind)
    elif isinstance(kind, click.IntRange) and option.metavar is None:
        value = f"a whole number of at least {kind.min}"
    else:
        value = option.metavar or kind.name.upper()
    default = f" Default: `{option.default}`." if option.show_default else ""
    variable = f" (`{option.envvar}`)" if option.envvar else ""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return _row(names, value, f"{option.help}{default}{variable}")


def _first(documented: Any) -> str:
    return re.split(r"(?<=\.)\s|\n\n", inspect.getdoc(documented) or "")[0].replace("\n", " ")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |"


def _code(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


# Python -------------------------------------------------------------------------------------------


def api_page() -> str:
    parts = [DATA["api"]["about"]]
    for chapter in DATA["api"]["chapters"]:
        parts += [f"## {chapter['title']}", chapter["about"]]
        for name in chapter["names"]:
            member = getattr(import_module(chapter["module"]), name.removesuffix("()"))
            parts += _member(f"{chapter['module']}.{name}", member)
    parts += ["## Exceptions", DATA["api"]["exceptions"]]
    public = sorted((one for one in errors().values() if one.__name__[0] != "_"), key=lambda one: one.__name__)
    public.sort(key=lambda one: one.exit_code)
    rows = [_row(f"`{one.__name__}`", str(one.exit_code), _first(one)) for one in public]
    parts.append("\n".join(["| exception | exit code | what it tells |", "| --- | --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def _member(path: str, member: Any) -> list[str]:
    """A function, or a class with its methods; of a class whose name ends in () also how it is made."""
    name = path.removesuffix("()").rpartition(".")[2]
    parts = [f"### {path.removesuffix('()').removeprefix('drom_net.')}"]
    if not inspect.isclass(member):
        return [*parts, _signature(path, member), *_prose(member)]
    made = [_signature(path.removesuffix("()"), member)] if path.endswith("()") else []
    parts += [*made, *_prose(member)]
    parts += _prose(member.__init__) if made and "Args:" in str(member.__init__.__doc__) else []
    for key, value in vars(member).items():
        if key.startswith("_") or not inspect.getdoc(value):
            continue
        if inspect.isfunction(value):
            parts += [f"#### `{name}.{key}`", _signature(key, value), *_prose(value)]
        elif isinstance(value, property):
            kind = inspect.signature(value.fget).return_annotation if value.fget else ""
            parts += [f"#### `{name}.{key}`", _code(f"{key}: {kind}", "python"), *_prose(value)]
    return parts


def _signature(name: str, function: Any) -> str:
    found = inspect.signature(function)
    words, last = [], None
    for param in found.parameters.values():
        if param.kind is param.KEYWORD_ONLY and last not in (param.KEYWORD_ONLY, param.VAR_POSITIONAL):
            words.append("*")
        last = param.kind
        stars = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "")
        value = json.dumps(param.default) if isinstance(param.default, str) else repr(param.default)
        default = "" if param.default is param.empty else f" = {value}"
        kind = getattr(param.annotation, "__forward_arg__", param.annotation)
        words += [f"{stars}{param.name}: {kind}{default}"] if param.name != "self" else []
    result = "" if name.endswith("()") or found.return_annotation in ("None", found.empty) else found.return_annotation
    ends = f" -> {result}" if result else ""
    text = f"{name}({', '.join(words)}){ends}"
    return _code(text if len(text) <= 100 else f"{name}(\n    " + ",\n    ".join(words) + f",\n){ends}", "python")


def _prose(member: Any) -> Iterator[str]:
    """A docstring as Markdown."""
    for part in (inspect.getdoc(member) or "").split("\n\n"):
        if part.startswith(">>>"):
            yield _code(part, "python")
        elif found := re.match(r"(Args|Attributes|Raises|Returns):\n", part):
            yield {"Args": "Arguments:"}.get(found[1], f"{found[1]}:")
            items = re.split(r"\n(?=\S)", textwrap.dedent(part[found.end() :]))
            yield "\n".join(re.sub(r"^([\w*]+(?:, [\w*]+)*): ", r"- `\1`: ", item) for item in items)
        else:
            yield part


# Errors ------------------------------------------------------------------------------------------


def errors_page() -> str:
    parts = [DATA["errors"]["about"], "## Exit codes", DATA["errors"]["codes"]]
    codes = re.findall(r"^  (\d+) +(.+)$", EXIT_CODES, re.MULTILINE)
    rows = [_row(code, meaning, DATA["errors"]["after"][int(code)]) for code, meaning in codes]
    parts.append("\n".join(["| exit code | meaning | what to do |", "| --- | --- | --- |", *rows]))
    for area in DATA["errors"]["areas"]:
        parts.append(f"## {area['area']}")
        for group in area["groups"]:
            parts += _group(group)
    return "\n\n".join(parts) + "\n"


def _group(group: dict[str, Any]) -> list[str]:
    """What to do, then the messages: a heading each, or as a list where they are parts of another one."""
    found = [Message("", 0, "", text, group.get("exit", "2")) for text in group.get("also", ())]
    found += [one for source in group["of"] for one in messages() if is_of(one, source)]
    unique = {one.text: one for one in found}.values()
    codes = {one.code for one in unique}
    classes = sorted({f"`{one.error}`" for one in unique if one.error in errors() and one.error[0] != "_"})
    told = [f"Exit code {min(codes)}."] if len(codes) == 1 else []
    told += [f"In Python: {', '.join(classes)}."] if classes else []
    if group.get("reasons"):
        return [f"### {group['group']}", group["do"], "\n".join(f"- {_quoted(one.text)}" for one in unique)]
    parts = [f"### {group['group']}", " ".join([group["do"], *told])]
    for one in unique:
        more = [f"Exit code {one.code}."] if len(codes) > 1 else []
        more += [text for part, text in group.get("more", {}).items() if part in one.text]
        parts += [f"#### {_quoted(one.text)}", *([" ".join(more)] if more else [])]
    return parts


def is_of(message: Message, source: str) -> bool:
    """Whether it is of this module (and, behind a colon, of this exception)."""
    module, _, error = source.partition(":")
    return message.module == module and error in ("", message.error)


def _quoted(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


PAGES = {"cli.md": cli_page, "api.md": api_page, "errors.md": errors_page}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
