"""The configuration as a whole: the sections, and the contradictions between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field, PrivateAttr, create_model, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lakewarden.jobs.registry import SECTIONS
from lakewarden.model.lineage import Requirements
from lakewarden.model.policy import Job
from lakewarden.model.redaction import redact
from lakewarden.model.uri import FileUri
from lakewarden.reports.check import Found
from lakewarden.settings.lineage import Gateway, Lineage, OpenLineage, narrowed
from lakewarden.settings.resolve import PolicyInEffect, Scope, matches, resolve
from lakewarden.settings.sections import (
    CatalogSection,
    Cost,
    Metrics,
    RestoreDrill,
    Service,
    Spark,
    State,
    Webhook,
    Worker,
)
from lakewarden.steps.section import JobSection, Section

# In a section of [storage]: the name under which the same store is known.
SAME_AS = "same_as"


class _Written(Section):
    def given(self, section: str) -> JobSection | None:
        """The section, if its user wrote it."""
        return getattr(self, section) if section in self.model_fields_set else None


_fields: dict[str, Any] = {name: (model, Field(default_factory=model)) for name, model in SECTIONS.items()}
# One section a job, each of them optional: what an override may hold.
Jobs: Any = create_model("Jobs", __base__=_Written, **_fields)


class Override(Jobs):
    """Values for the tables whose identifier matches."""

    match: str = Field(min_length=1)
    lineage: Lineage = Field(default_factory=Lineage)

    @model_validator(mode="after")
    def _says_something(self) -> Override:
        sections = self.model_fields_set - {"match"}
        if not sections:
            raise ValueError("has a match and no section, so it changes nothing")
        for name in sections & SECTIONS.keys():
            section: JobSection = getattr(self, name)
            if wide := section.section_only & section.model_fields_set:
                raise ValueError(f"cannot set {name}.{min(wide)}: it belongs to the whole fleet, in [{name}]")
        return self


class Settings(BaseSettings, Jobs):
    """Everything a user writes. Made by `load_settings`, which turns every mistake into a ConfigError."""

    model_config = SettingsConfigDict(extra="forbid", strict=True, frozen=True)

    worker: Worker = Field(default_factory=Worker)
    state: State = Field(default_factory=State)
    spark: Spark = Field(default_factory=Spark)
    catalogs: dict[str, CatalogSection] = Field(default_factory=dict)
    storage: dict[str, dict[str, object]] = Field(default_factory=dict)
    cost: Cost = Field(default_factory=Cost)
    metrics: Metrics = Field(default_factory=Metrics)
    service: Service = Field(default_factory=Service)
    restore_drill: RestoreDrill = Field(default_factory=RestoreDrill)
    webhooks: list[Webhook] = Field(default_factory=list)
    lineage: Lineage = Field(default_factory=Lineage)
    gateway: Gateway = Field(default_factory=Gateway)
    openlineage: OpenLineage = Field(default_factory=OpenLineage)
    overrides: list[Override] = Field(default_factory=list)

    # Which file and which environment variables the values came from; filled by load_settings.
    _file: str = PrivateAttr(default="lakewarden.toml")
    _variables: dict[str, str] = PrivateAttr(default_factory=dict)

    def __repr__(self) -> str:
        return f"Settings({redact(self.model_dump())})"

    __str__ = __repr__

    @field_validator("storage")
    @classmethod
    def _one_spelling_a_store(cls, storage: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
        seen: dict[str, str] = {}
        for prefix in storage:
            if "://" not in prefix:
                raise ValueError(f'"{prefix}" is not a prefix such as "s3://bucket"')
            spelling = FileUri.written(prefix).as_prefix()
            if spelling in seen:
                raise ValueError(f'"{seen[spelling]}" and "{prefix}" are the same store; keep one')
            seen[spelling] = prefix
        for prefix, values in storage.items():
            if SAME_AS in values:
                _check_second_name(storage, prefix, values)
        return storage

    @field_validator("catalogs")
    @classmethod
    def _plain_names(cls, catalogs: dict[str, CatalogSection]) -> dict[str, CatalogSection]:
        for name in catalogs:
            if not name or "." in name:
                raise ValueError(f'"{name}" cannot name a catalog: identifiers are catalog.namespace.table')
        return catalogs

    @field_validator("webhooks")
    @classmethod
    def _told_apart(cls, webhooks: list[Webhook]) -> list[Webhook]:
        for number, hook in enumerate(webhooks):
            if hook.known_as in {other.known_as for other in webhooks[:number]}:
                raise ValueError(f"two webhooks go by {hook.known_as}; give each a name of its own")
        return webhooks

    @model_validator(mode="after")
    def _whole(self) -> Settings:
        if self.state.database == "sqlite" and self.state.local_path is None:
            raise ValueError(
                "state.database must be given when state.location is not on local disk; "
                'allowed: "sqlite:///path/to/file.db", "postgresql://…"'
            )
        return self

    def job(self, job: Job | str) -> JobSection:
        """The job's own section, before overrides."""
        section: JobSection = getattr(self, Job(job).section)
        return section

    @property
    def second_names(self) -> Mapping[str, str]:
        """Stores that have two names: by the second (`s3://alias`), the one under which its files are known."""
        return {
            FileUri.written(prefix).store: FileUri.written(str(values[SAME_AS])).store
            for prefix, values in self.storage.items()
            if SAME_AS in values
        }

    @property
    def inventory(self) -> Mapping[str, str]:
        """Inventories that stand for LIST calls, by the prefix that each covers."""
        return dict(getattr(self.job(Job.ORPHAN_CLEANUP), "inventory", {}))

    def found(self) -> Found:
        """What the configuration says, in one line; doubtful where a part of it has no effect."""
        names = [f"{name} ({section.format})" for name, section in self.catalogs.items()]
        words = f"{self._file}: {'catalogs ' + ', '.join(names) if names else 'no catalogs'}"
        if self._variables:
            words += f"; from the environment: {', '.join(sorted(self._variables.values()))}"
        hints = [] if names else ["Name a catalog: [catalogs.NAME] with format and properties."]
        return Found(words, " ".join([*hints, *self.warnings()]))

    def warnings(self) -> list[str]:
        """What was accepted and has no effect."""
        found = [f"{name}.{warning}" for name in SECTIONS for warning in getattr(self, name).without_effect()]
        for override in self.overrides:
            for name in SECTIONS:
                if (given := override.given(name)) is not None:
                    found += [f"overrides {override.match!r}: {name}.{w}" for w in given.without_effect()]
        return found

    def policy_for(
        self,
        job: Job | str,
        identifier: str,
        table_properties: Mapping[str, str],
        *,
        uuid: str = "",
        unsafe_short_grace: Collection[str] = (),
    ) -> PolicyInEffect:
        """The job's values for one table and where each comes from. A bad table property refuses that table only."""
        section = Job(job).section
        named = ((o.match, o.given(section)) for o in self.overrides)
        return resolve(
            Scope(section, self.job(job), self._file, self._variables),
            [(match, given) for match, given in named if given is not None],
            identifier,
            table_properties,
            short_grace_allowed=bool(uuid) and uuid in unsafe_short_grace,
        )

    def requirements_for(self, identifier: str, table_properties: Mapping[str, str]) -> Requirements:
        """What the commits of one table must say: `[lineage]`, then overrides in the file's order, then the table itself."""
        rules = narrowed(Requirements(), self.lineage)
        for override in self.overrides:
            if "lineage" in override.model_fields_set and matches(identifier, override.match):
                rules = narrowed(rules, override.lineage)
        return rules.under(table_properties)


def _check_second_name(storage: Mapping[str, Mapping[str, object]], prefix: str, values: Mapping[str, object]) -> None:
    """Raise ValueError unless a section with `same_as` names one whole store, and one that goes by its own name."""
    other, same = FileUri.written(prefix), values[SAME_AS]
    if not isinstance(same, str) or "://" not in same:
        raise ValueError(f'"{prefix}": same_as must name a store such as "s3://bucket"')
    one = FileUri.written(same)
    if other.scheme != one.scheme or other.scheme == "file" or other.key.strip("/") or one.key.strip("/"):
        raise ValueError(f'"{prefix}": same_as must name a whole store of the same kind, such as "s3://bucket"')
    if other.store == one.store:
        raise ValueError(f'"{prefix}" is the same as itself; remove same_as')
    if len(values) > 1:
        raise ValueError(
            f'"{prefix}" has same_as and other keys: say those of "{same}", which is the one that is opened'
        )
    if any(FileUri.written(name).store == one.store and SAME_AS in said for name, said in storage.items()):
        raise ValueError(f'"{prefix}" is the same as "{same}", which is the same as another: name that one')
