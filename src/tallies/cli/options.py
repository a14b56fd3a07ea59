"""Options and commands: the form in which both are declared, and what all commands share. Results on stdout, words on stderr."""

from __future__ import annotations

import codecs
import inspect
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer

from tallies import phases
from tallies.errors import DataError


class Option(NamedTuple):
    """An option or argument of a command: a hyperparameter of a model, something about its data, or about the run."""

    name: str  # key in run.toml and in what the functions of a command are given
    help: str
    default: Any = None  # ... where the line must say it
    kind: Any = str  # its type; what is neither a word, a number, a switch nor a choice is read from text, see `configs.read`
    flag: str = ""  # names on the line where they differ: "topics,k" is --topics and -k; in capitals it is an argument
    parse: Callable[[str], Any] | None = None  # reads text where the usual rule does not
    needed: bool = False  # by a fit, from the line or a file
    many: bool = False  # may be given several times
    metavar: str | None = None  # what stands for its value in --help
    least: int | None = None
    run: bool = False  # has its place in --help with those of the run; a switch among them has no --no
    models: tuple[str, ...] = ()  # that have it, where not all have

    @property
    def flags(self) -> list[str]:
        """Its names on the line.

        >>> Option("n_topics", "Number of topics.", flag="topics,k").flags, Option("min_df", "").flags
        (['topics', 'k'], ['min-df'])
        """
        return (self.flag or self.name.replace("_", "-")).split(",")

    @property
    def title(self) -> str:
        """Its name in a sentence.

        >>> Option("min_df", "").title, Option("n", "").title, Option("data", "", flag="DATA").title
        ('--min-df', '-n', 'DATA')
        """
        return self.flag if self.flag.isupper() else f"-{'-' * (len(self.flags[0]) > 1)}{self.flags[0]}"

    def parameter(self) -> inspect.Parameter:
        """How typer is told of it."""
        plain, default = (bool, int, float, str, Path), self.default
        kinds = [kind for kind in alternatives(self.kind) if kind in plain or get_origin(kind)]  # an object is no text
        kind: Any = kinds[0] if len(kinds) == 1 else Any
        words = get_args(kind) if get_origin(kind) is Literal else (None,)
        if kind not in plain and not all(isinstance(word, str) for word in words):
            kind, default = str, None if default is None else str(default)
        more: dict[str, Any] = {"help": self.help + " Needed." * self.needed, "min": self.least}
        more["autocompletion"] = _runs if self.flag == "RUN" else None  # for the shell
        if self.title.startswith("-"):
            names = [self.title, *(f"-{letter}" for letter in self.flags[1:])]
            names[0] += f"/--no-{self.flags[0]}" * (kind is bool and not self.run)
            about: Any = typer.Option(*names, **more, metavar=self.metavar, rich_help_panel=PANEL if self.run else None)
        else:
            about = typer.Argument(metavar=self.title, **more)
        kind = list[kind] if self.many else kind
        form: Any = Annotated[kind if default is ... else kind | None, about]
        default = inspect.Parameter.empty if default is ... else default
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form)


def alternatives(kind: Any) -> list[Any]:
    """The types that a value may have; None is what is not told.

    >>> alternatives(float | Literal["auto"] | None)
    [<class 'float'>, typing.Literal['auto']]
    """
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [kind for kind in kinds if kind is not NoneType]


def _runs(incomplete: str) -> list[str]:
    """RUN folders, for the completion of the shell."""
    home = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    found = (str(path.parent) for path in home.glob("*/run.toml"))
    return sorted(path for path in found if path.startswith(incomplete.removeprefix("./")))


PANEL = "The run"  # heading in --help of the options that belong to the run, not to the model
RUN = Option("run", "Folder written by `tallies fit`.", ..., Path, "RUN")
COMMON = (  # to all commands
    Option("threads", "Threads to use; default: all cores. Changes no result.", None, int, least=1, run=True),
    Option("as_json", "Print JSON for machines.", False, bool, "json", run=True),
    Option("quiet", "No progress and no closing words.", False, bool, "quiet,q", run=True),
)


READING = (  # of all commands that read tables
    Option("sep", "What parts the columns of a text: a sign, or tab, space; default: found out."),
    Option("decimal", "Decimal mark of numbers in a text: . or ,; default: found out."),
    Option("encoding", "Encoding of a text, such as cp1252; default: found out."),
    Option("header", "Whether the first row of a text has the names; default: found out.", None, bool),
)


class Line(NamedTuple):
    """What every command is told."""

    command: str
    told: dict[str, Any]  # what the line says, without what are only defaults; paths as text
    as_json: bool
    quiet: bool


class Answer(NamedTuple):
    """What every command gives back."""

    result: Any  # for --json
    text: str = ""  # the same for a person, on stdout
    after: str = ""  # what was written, and what to do next, on stderr
    code: int = 0  # of the exit


class Late(typer.core.TyperGroup):
    """Groups first, then commands as they were added; each learns its options when it is asked for, so that --help is quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: not isinstance(self.commands[name], Late))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found: Any = super().resolve_command(ctx, args)
        name, stub, rest = found
        if not hasattr(stub.callback, "whole"):
            return found
        app = typer.Typer(add_completion=False)
        app.command(name, help=stub.help)(stub.callback.whole())
        return name, typer.main.get_command(app), rest


Function = Callable[..., Answer]


def command(
    app: typer.Typer, options: Callable[[], Iterable[Option]], name: str = "", help: str = ""
) -> Callable[[Function], Function]:
    """Add a function to a group of class `Late`: it is called with a `Line`, and the options by keyword."""

    def add(function: Function) -> Function:
        def stub() -> None:
            """Never called: `Late` puts the whole command in its place."""

        stub.__dict__["whole"] = lambda: _whole(function, options())
        app.command(name or function.__name__, help=help or function.__doc__)(stub)
        return function

    return add


def _whole(function: Function, options: Iterable[Option]) -> Callable[..., None]:
    """The function as typer calls it: with options spelled out, and what it gives back printed."""

    def call(ctx: typer.Context, **values: Any) -> None:
        as_json, quiet = values.pop("as_json"), values.pop("quiet")
        said = [key for key in values if getattr(ctx.get_parameter_source(key), "name", "") not in ("DEFAULT", "DEFAULT_MAP")]
        told = {key: str(values[key]) if isinstance(values[key], Path) else values[key] for key in said}
        with where(threads=values.pop("threads")), notes(quiet or as_json):
            answer = function(Line(str(ctx.info_name), told, as_json, quiet), **values)
        phases.hush()  # from here on the terminal is for the answer
        if as_json:
            from tallies.storage import plain

            print(json.dumps(plain(answer.result), ensure_ascii=_encoding(sys.stdout) != "utf-8", allow_nan=False))
        elif answer.text:
            print(answer.text.removesuffix("\n"))
        say(answer.after, quiet or as_json or not answer.after)
        if answer.code:
            sys.exit(answer.code)

    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    call.__dict__["__signature__"] = inspect.Signature([ctx, *(option.parameter() for option in (*options, *COMMON))])
    call.__annotations__ = {}
    return call


def where(
    scheduler: str | None = None, threads: int | None = None, memory: str | None = None, scratch: str | None = None
) -> AbstractContextManager[None]:
    """The backend that a command runs on."""
    import tallies

    return tallies.backend(scheduler or "threads", threads, memory, scratch)


@contextmanager
def notes(quiet: bool) -> Iterator[None]:
    """Inside the block, what readers tell of files is said."""

    said = set()

    class Say(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() not in said:  # a file may be read several times
                said.add(record.getMessage())
                say(record.getMessage(), quiet)

    log, handler = logging.getLogger("tallies"), Say()
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


TABLES: ContextVar[dict[str, Any]] = ContextVar("tables")  # those read inside a block of `read_as`, by their paths


@contextmanager
def read_as(options: Mapping[str, Any], data: str | Path | None) -> Iterator[None]:
    """Inside the block files are read as the options say, which must be about a text; see also `tables.read_once`."""
    from tallies.data.files import KINDS, told

    about = {option.name: options.get(option.name) for option in READING}
    given = [option.title for option in READING if about[option.name] is not None]
    name = "" if data is None else Path(data).name.lower().removesuffix(".gz").removesuffix(".zip")
    if given and name and KINDS.get(Path(name).suffix, "") not in ("text", ""):
        raise DataError(f"{given[0]} is about tables of text, but {str(data)!r} is none; leave it out")
    token = TABLES.set({})
    try:
        with told(**about):
            yield
    finally:
        TABLES.reset(token)


def _encoding(stream: Any) -> str:
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name


def speak_any_language(words: list[str]) -> None:
    """No name is lost or fatal where the locale is ASCII: words and paths are UTF-8, for which Python has to start again; a file or
    pipe gets UTF-8, and a terminal escapes what it cannot show."""
    if sys.getfilesystemencoding() == "ascii" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-P", "-X", "utf8", "-m", "tallies", *words])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            plain = _encoding(stream) == "ascii" and not stream.isatty()
            stream.reconfigure(encoding="utf-8" if plain else None, errors="backslashreplace")


def say(text: str, quiet: bool = False) -> None:
    """Words for a person, on stderr."""
    if not quiet:
        phases.clear()
        with suppress(OSError):  # nobody is there to read it
            print(text, file=sys.stderr, flush=True)
