"""Which value is in effect for one table, and who set it: default < section < overrides < table property."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from lakewarden.jobs.registry import SECTIONS
from lakewarden.model.errors import ConfigError, Refusal, UnsafeGraceError
from lakewarden.model.policy import Provenance
from lakewarden.settings.complaints import complaint, guess
from lakewarden.settings.text_values import typed
from lakewarden.steps.section import JobSection

PROPERTY_PREFIX = "lakewarden."
ONLY_STRICTER = ("dry_run", "approval")


@dataclass(frozen=True, slots=True)
class Scope:
    """The job's own section, with the names of the file and variables that filled it."""

    section: str
    values: JobSection
    file: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PolicyInEffect:
    """One job's values for one table. A refusal leaves the table alone and says why."""

    values: Mapping[str, Any]
    provenance: Mapping[str, Provenance]
    refusal: Refusal | None = None
    warnings: tuple[str, ...] = ()

    def sources(self) -> dict[str, tuple[Any, str]]:
        """Each value with the place that set it."""
        return {key: (item.value, item.source) for key, item in self.provenance.items()}


def matches(identifier: str, pattern: str) -> bool:
    """Whether an override is about a table."""
    # A name may hold what a glob reads as a class: t[1] is also the table that is called so.
    return identifier == pattern or fnmatchcase(identifier, pattern)


def resolve(
    scope: Scope,
    overrides: Iterable[tuple[str, JobSection]],
    identifier: str,
    table_properties: Mapping[str, str],
    *,
    short_grace_allowed: bool = False,
) -> PolicyInEffect:
    """The values in effect for one table, narrowest scope last; dry_run and approval can only become true on the way."""
    found = _from_section(scope)
    warnings: list[str] = []
    for match, given in overrides:
        if matches(identifier, match):
            source = f'{scope.file} [[overrides]] match = "{match}"'
            _narrow(found, {key: getattr(given, key) for key in given.model_fields_set}, source, warnings)
    try:
        for name, given in _from_properties(scope.section, table_properties):
            key = name.rpartition(".")[2]
            _narrow(found, {key: getattr(given, key)}, f"table property {name}", warnings)
            warnings += [f"{scope.section}.{warning}" for warning in given.without_effect()]
        _check_floors(scope.values, found, identifier, short_grace_allowed)
    except ConfigError as error:
        return PolicyInEffect(_values(found), found, error.refusal(), tuple(warnings))
    return PolicyInEffect(_values(found), found, None, tuple(warnings))


def _from_section(scope: Scope) -> dict[str, Provenance]:
    found = {}
    for key in type(scope.values).model_fields:
        source = "default"
        if key in scope.values.model_fields_set:
            variable = scope.variables.get(f"{scope.section}.{key}")
            source = f"environment {variable}" if variable else f"{scope.file} [{scope.section}]"
        found[key] = Provenance(getattr(scope.values, key), source)
    return found


def _narrow(found: dict[str, Provenance], given: Mapping[str, Any], source: str, warnings: list[str]) -> None:
    for key, value in given.items():
        if key in ONLY_STRICTER and found[key].value and not value:
            # A narrow scope must not switch deleting on where a wider one switched it off, or wants to be asked.
            warnings.append(f"{key} = false from {source} has no effect: {found[key].source} says true")
            continue
        found[key] = Provenance(value, source)


def _from_properties(section: str, properties: Mapping[str, str]) -> Iterable[tuple[str, JobSection]]:
    """Each property of this section, checked alone. Raises ConfigError for any that cannot be understood."""
    for name, text in sorted(properties.items()):
        if not name.startswith(PROPERTY_PREFIX):
            continue
        named, _, key = name.removeprefix(PROPERTY_PREFIX).partition(".")
        if named not in SECTIONS:
            # Somebody meant to say something about this table, perhaps "keep off"; guessing would be unsafe.
            raise ConfigError(
                f"table property {name}: there is no section {named!r}{guess(named, SECTIONS)}", hint=_HINT
            )
        if named != section:
            continue
        model = SECTIONS[section]
        if key in model.section_only:
            raise ConfigError(f"table property {name}: {key} belongs to the whole fleet, in [{section}]", hint=_HINT)
        try:
            yield name, model.model_validate({key: typed(text, model, key)})
        except ValidationError as error:
            problem = complaint(error.errors()[0], model, (section,))
            raise ConfigError(f"table property {name}: {problem}", hint=_HINT) from None


_HINT = "Correct or remove the table property; until then this table is left alone and the others go on."


def _check_floors(section: JobSection, found: Mapping[str, Provenance], identifier: str, allowed: bool) -> None:
    for key, floor in section.floors.items():
        given = found[key]
        if allowed or not floor.above(given.value):
            continue
        raise UnsafeGraceError(
            f"{key} = {given.value} for {identifier} (from {given.source}) is below the floor of "
            f"{int(floor.least.total_seconds() // 3600)}; nothing of this table is touched",
            hint=f"Raise {key}, or name each table to `lakewarden plan` with --unsafe-short-grace TABLE_UUID.",
        )


def _values(found: Mapping[str, Provenance]) -> dict[str, Any]:
    return {key: item.value for key, item in found.items()}
