"""Sets of options that commands share: a dataclass declares them once, and a command takes the set as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand

from lakewarden.model.errors import UsageError

# A reason is for people to read, and may be left out in these ways too.
MAY_BE_EMPTY = frozenset({"reason"})
Command = TypeVar("Command", bound=Callable[..., Any])


class Commands(typer.Typer):
    """Commands whose parameters may be sets of options. What is said before a command's name counts as said after it."""

    def __init__(self, **given: Any) -> None:
        names = {"help_option_names": ["-h", "--help"]}
        whole = {"short_help": given["help"]} if "help" in given else {}
        super().__init__(rich_markup_mode=None, context_settings=names, **whole, **given)

    def command(self, *given: Any, **named: Any) -> Callable[[Command], Command]:
        """In lists of commands the first sentence stands whole: typer would cut it where the line ends."""
        register = super().command

        def add(command: Command) -> Command:
            first = f"{inspect.getdoc(command) or ''} ".partition(". ")[0].rstrip(".")
            register(*given, **{"cls": Named, "short_help": f"{first}.", **named})(_spread(command))
            return command

        return add

    def callback(self, *given: Any, **named: Any) -> Callable[[Command], Command]:
        register = super().callback(*given, **named)

        def add(command: Command) -> Command:
            register(_spread(command))
            return command

        return add


class Named(TyperCommand):
    """A command whose help calls arguments by their names, without the types that they have in Python."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for argument in self.params:
            if isinstance(argument, TyperArgument):
                argument.display_type_rich = lambda ctx: None  # type: ignore[method-assign]


def _spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command as typer should see it: each set of options in its place as the options that it holds."""
    types = get_type_hints(command, include_extras=True)
    sets: dict[str, Any] = {name: kind for name, kind in types.items() if name != "return" and is_dataclass(kind)}

    @wraps(command)
    def called(context: typer.Context, **given: Any) -> Any:
        _check_words(context)
        held = {name: kind(**_said(context, kind)) for name, kind in sets.items()}
        options = {field.name for kind in sets.values() for field in fields(kind)}
        return command(**held, **{name: value for name, value in given.items() if name not in options})

    own = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=types[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in sets
    ]
    # The sets that a command names first are those that all commands have: in the help they come last.
    shared = [option for kind in reversed(sets.values()) for option in _options(kind)]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    called.__signature__ = inspect.Signature([context, *own, *shared])  # type: ignore[attr-defined]
    return called


def _check_words(context: Any) -> None:
    """Raise UsageError for a word that says nothing: mostly a variable of a script that was never set.

    An empty pattern, ticket or file would be taken for another one, or for none, by whoever asks for it later.
    """
    place = context
    while place is not None:
        for parameter in place.command.params:
            given = place.params.get(parameter.name)
            for word in given if isinstance(given, list | tuple) else (given,):
                if not isinstance(word, str) or parameter.name in MAY_BE_EMPTY:
                    continue
                name = parameter.metavar if isinstance(parameter, TyperArgument) else parameter.opts[0]
                if not word.strip():
                    raise UsageError(f"{name} is empty; nothing was done", hint=_help_of(context))
                if not word.isprintable() and _is_no_text(word):
                    raise UsageError(f"{name} is not text in UTF-8; nothing was done", hint=_help_of(context))
        place = place.parent


def _is_no_text(word: str) -> bool:
    """Bytes of the command line that are no text reach Python as surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return True
    return False


def _help_of(context: Any) -> str:
    return f"`{context.command_path} --help` says what it takes."


def _options(kind: type) -> list[inspect.Parameter]:
    types = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=types[field.name],
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(kind)
    ]


def _said(context: typer.Context, kind: type) -> dict[str, Any]:
    """The options of a set that the user wrote, before the command's name or after it; written twice, the later counts."""
    said: dict[str, Any] = {}
    place: Any = context
    while place is not None:
        for field in fields(kind):
            source = place.get_parameter_source(field.name)
            if source is not None and source.name == "COMMANDLINE":
                said.setdefault(field.name, place.params[field.name])
        place = place.parent
    return said
