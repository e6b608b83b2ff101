"""The command line: parse, call, print; an exception becomes one message and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

import click

from drom_net import __version__
from drom_net.cli.commands import BY_HEADING
from drom_net.cli.telling import log_as, print_json, tell
from drom_net.core.errors import DromNetError

EXIT_CODES = """\b
Exit codes:
  0    finished
  1    unexpected error, or a node failed
  2    usage, configuration or data
  3    rejected by the cluster
  4    the cluster, or a node that is needed, is gone
  129  its terminal was closed (SIGHUP)
  130  interrupted (Ctrl-C)
  143  terminated (SIGTERM)

docs/reference/errors.md lists all errors, and says what to do about each group.
"""


class _Headed(click.Group):
    """A group whose help lists its commands by heading."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for heading, members in BY_HEADING.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{member.name:<{width}}", member.get_short_help_str(formatter.width)) for member in members]
                )


@click.group(cls=_Headed, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="drom-net")
def group() -> None:
    """Online multi-task learning across sites that keep their own data.

    Each site is a task with its own process; the processes learn from each other by the vectors
    that they exchange in sync rounds.

    \b
    Examples:
      drom-net init --example pumps
      drom-net run pumps/pumps.yaml
    """


for members in BY_HEADING.values():
    for member in members:
        group.add_command(member)


def main(arguments: Sequence[str] | None = None, *, command: click.Command = group, name: str = "drom-net") -> int:
    """Run one command line and return its exit code; of this command, or of another that ends as this one does."""
    log_as("text")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters that this terminal has not
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        result = command.main(args=words, prog_name=name, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return _fail(words, "interrupted", 130, event="interrupted")
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # of a group without a command
            error.show()
            return error.exit_code
        return _fail(words, _of_usage(error), error.exit_code)
    except DromNetError as error:
        return _fail(words, str(error), error.exit_code)
    except MemoryError as error:
        return _fail(words, f"not enough memory{f': {error}' if str(error) else ''}", 1)
    except BrokenPipeError:
        # Whoever read our output has gone; what is still in the buffer is nobody's.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(words, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    return result if isinstance(result, int) else 0


def _fail(words: Sequence[str], text: str, exit_code: int, *, event: str = "failed") -> int:
    """Tell why the command ends, on standard error; who asked for JSON has it on standard output, too.

    Args:
        words: The command line.
    """
    level = "error" if event == "failed" else "warning"
    for line in text.splitlines():
        tell(f"error: {line}" if event == "failed" else line, event, level=level, exit_code=exit_code)
    if "--json" in words:
        with contextlib.suppress(OSError, ValueError):
            print_json({"error": text, "exit_code": exit_code})
            sys.stdout.flush()
    return exit_code


def _of_usage(error: click.ClickException) -> str:
    """Click's sentence, in the form of ours."""
    text = error.format_message().removesuffix(".").replace(". Did you", "; did you").replace(". (Did you", " (did you")
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    context = getattr(error, "ctx", None)
    if context is None:
        return text
    return f"{text}{'' if text.endswith('?') else ';'} `{context.command_path} --help` tells more"
