"""`python -m coordinator_model shell`: type joins, leaves and clock steps, and see how the coordinator answers."""

from __future__ import annotations

import argparse
import cmd
import shlex
import sys
from collections.abc import Sequence
from typing import TextIO

from .commands import CommandError, ShellSession
from .grammar import COMMANDS

_INTRO = """Kafka's group coordinator. One topic, orders, with 6 partitions; the clock stands at 0.
Try: join orders --instance web-0 · tick 3s · show · bounce orders web-0 · timers · help"""

_EXAMPLE = """example of a script:
  printf 'join orders --instance web-0\\ntick 3s\\nbounce orders web-0\\nshow\\n' | python -m coordinator_model shell
"""


class Shell(cmd.Cmd):
    """Reads commands and prints what happens; a wrong command is explained and changes nothing.

    Parameters
    ----------
    echo: print each command before what it does, so that the output of a script reads by itself.
    """

    prompt = "coordinator> "

    def __init__(self, stdin: TextIO, stdout: TextIO, *, echo: bool) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin.isatty()
        self.failures = 0
        self._echo = echo
        self._session = ShellSession(self._print)
        if not self.use_rawinput:
            self.prompt = ""

    def _print(self, line: str) -> None:
        print(line, file=self.stdout)  # the shell's own output

    def precmd(self, line: str) -> str:
        """Echo a script's line."""
        if self._echo and line != "EOF":
            self._print(f"{Shell.prompt}{line}".rstrip())
        return line

    def emptyline(self) -> bool:
        """Do nothing; repeating the last command, as readline programs do, would move the clock unasked."""
        return False

    def default(self, line: str) -> None:
        """Carry out a line of the grammar; `#` begins a comment."""
        try:
            words = shlex.split(line, comments=True)
            if words:
                self._run(words[0], words[1:])
        except (CommandError, ValueError) as error:
            self.failures += 1
            self._print(f"error: {error}")

    def onecmd(self, line: str) -> bool:
        """Carry out one line; returns True at the end."""
        word = line.strip()
        if word in ("EOF", "quit", "exit"):
            return True
        if not word:
            return self.emptyline()
        self.default(line)
        return False

    def completenames(self, text: str, *ignored: object) -> list[str]:
        """Complete the first word."""
        return [f"{name} " for name in (*COMMANDS, "help", "quit") if name.startswith(text)]

    def _run(self, name: str, arguments: Sequence[str]) -> None:
        if name == "help":
            self._help(arguments)
            return
        command = COMMANDS.get(name)
        if command is None:
            raise CommandError(f"no command {name!r}; `help` lists them")
        parser, action = command
        action(self._session, parser.parse_args(arguments))

    def _help(self, topics: Sequence[str]) -> None:
        if topics:
            if topics[0] not in COMMANDS:
                raise CommandError(f"no command {topics[0]!r}; `help` lists them")
            self._print(COMMANDS[topics[0]][0].format_help().rstrip())
            return
        for name, (parser, _) in COMMANDS.items():
            self._print(f"  {name:<10} {parser.description}")
        self._print("  help NAME  Explain a command.\n  quit       End.")


def main(argv: Sequence[str] | None = None, *, stdin: TextIO | None = None, stdout: TextIO | None = None) -> int:
    """Run the shell; returns 0, or 1 if a line of a script was wrong.

    Parameters
    ----------
    argv: arguments after `shell`.
    stdin, stdout: in place of the process's own.
    """
    parser = argparse.ArgumentParser(
        prog="coordinator_model shell",
        description="Type joins, leaves and clock steps; see members, epochs, timers and records change.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("script", nargs="?", help="a file of commands; without it they are read from standard input")
    options = parser.parse_args(argv)
    output = stdout or sys.stdout
    try:
        source = open(options.script, encoding="utf-8") if options.script else stdin or sys.stdin  # noqa: SIM115
    except OSError as error:
        parser.error(f"cannot read {options.script}: {error.strerror}")
    interactive = source.isatty()
    shell = Shell(source, output, echo=not interactive)
    try:
        shell.cmdloop(_INTRO if interactive else "")
    except KeyboardInterrupt:
        output.write("\n")
    finally:
        if options.script:
            source.close()
    return 1 if shell.failures and not interactive else 0
