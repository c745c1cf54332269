"""From settings to a working Warden: the one place where the parts are built and joined."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lakewarden.model.clock import Clock, SystemClock
from lakewarden.model.errors import ConfigError, StateError
from lakewarden.model.ports import Progress
from lakewarden.model.uri import FileUri, is_address, use_one_name
from lakewarden.pipeline.masters import is_local
from lakewarden.pipeline.spark.connect import refuse_connect, refuse_connected
from lakewarden.settings import Settings, load_settings
from lakewarden.settings.schema import SAME_AS
from lakewarden.warden import Warden

if TYPE_CHECKING:
    from lakewarden.ledger.database import Ledger
    from lakewarden.ledger.leases import Leases
    from lakewarden.model.format import Format
    from lakewarden.pipeline.spark.session import SparkSession
    from lakewarden.reports.check import Question
    from lakewarden.steps.deployment import Deployment, RunEvents
    from lakewarden.storage.stores import Stores

STARTING = "start Spark"

# PyIceberg's names for what obstore calls otherwise. A catalog's properties serve its own tables unless [storage] says
# how a store is reached.
S3_NAMES = {
    "s3.endpoint": "endpoint",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "client.region": "region",
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
}


def open_warden(
    config: str | None = None, *, verbose: bool = False, clock: Clock | None = None, spark: Any = None
) -> Warden:
    """The worker that a configuration file describes. Nothing is opened that is not asked for.

    `spark` is somebody's session to work with. Raises SparkConnectError for one that cannot be worked with.
    """
    settings = load_settings(config)
    return Warden(Wiring(settings, clock or SystemClock(), verbose=verbose, spark=spark), settings)


class Wiring:
    """Builds each part once, when first needed: `show` must not wait for a catalog, nor `apply` for Spark."""

    def __init__(self, settings: Settings, clock: Clock, *, verbose: bool = False, spark: Any = None) -> None:
        self._settings = settings
        self.clock = clock
        self._verbose = verbose
        self._starting: Future[SparkSession] | None = None
        self._handed_in = spark
        if spark is not None:
            refuse_connected(spark)
        try:
            use_one_name(settings.second_names)
        except ValueError as error:
            raise ConfigError(f"[storage]: {error}; nothing was done") from error

    @cached_property
    def deployment(self) -> Deployment:
        from lakewarden.steps.deployment import Deployment

        return Deployment(
            formats=self._formats(),
            stores=self.stores,
            ledger=self.ledger,
            leases=self.leases,
            clock=self.clock,
            new_id=lambda: secrets.token_hex(8),
            worker=self._settings.worker.id,
            state=self._state,
            policy_for=self._settings.policy_for,
            requirements_for=self._settings.requirements_for,
            warm_spark=self._warm_spark,
            inventory=self._settings.inventory,
            cost=self._settings.cost.prices,
            on_cluster=not is_local(self._master),
            events=self._events,
        )

    @property
    def _events(self) -> RunEvents | None:
        """Who is told of runs, if anybody."""
        said = self._settings.openlineage
        if said.url is None:
            return None
        from lakewarden.steps.apply.openlineage import Endpoint, RunEvents

        return RunEvents(Endpoint(said.url, said.namespace, said.api_key, said.timeout_seconds), self.clock)

    @property
    def _master(self) -> str | None:
        """Of the session that was handed in, or that will be started."""
        if self._handed_in is not None:
            return cast("SparkSession", self._handed_in).sparkContext.master
        return self._settings.spark.conf_strings.get("spark.master", self._settings.spark.master)

    @property
    def _state(self) -> str:
        return FileUri.parse(self._settings.state.location).as_prefix()

    @cached_property
    def leases(self) -> Leases:
        from lakewarden.ledger.leases import Leases

        state = self._state
        return Leases(self.stores, f"{state}leases/", self.clock, self._settings.worker.id, wait=None)

    @cached_property
    def stores(self) -> Stores:
        """Credentials: what [storage] says for a prefix, else the catalog's own, else the environment's."""
        from lakewarden.storage.stores import Stores

        said = {
            prefix: {key: str(value) for key, value in values.items()}
            for prefix, values in self._settings.storage.items()
            if SAME_AS not in values
        }
        catalogs = self._settings.catalogs
        stores = Stores(said, {name: store_options(section.properties) for name, section in catalogs.items()})
        for name, section in catalogs.items():
            warehouse = str(section.properties.get("warehouse", ""))
            if is_address(warehouse) and FileUri.parse(warehouse).scheme == "s3":
                stores.claim(warehouse, name)
        return stores

    @cached_property
    def ledger(self) -> Ledger:
        """The database, brought to the newest schema."""
        from lakewarden.ledger.database import open_ledger

        if (path := self._settings.state.local_path) is not None:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StateError(f"state.location = {path} cannot be made: {error.strerror or error}") from error
        ledger = open_ledger(self._settings.state.database_url, self.clock)
        ledger.outbox.subscribe({hook.known_as: frozenset(hook.events) for hook in self._settings.webhooks})
        return ledger

    def close(self) -> None:
        """Let go of the database, if it was opened."""
        if "ledger" in self.__dict__:
            self.ledger.close()

    def questions(self, spark: bool, seconds: float) -> list[Question]:
        """What `config check` asks, each part by itself: one that cannot be opened holds no other."""
        from lakewarden.reports import check_parts as parts

        settings, state = self._settings, self._state
        stores = {
            prefix: ("", f'the name of [storage."{prefix}"]')
            for prefix, said in settings.storage.items()
            if SAME_AS not in said
        }
        for name, section in settings.catalogs.items():
            if is_address(warehouse := str(section.properties.get("warehouse", ""))):
                stores.setdefault(warehouse, (name, f"`warehouse` of [catalogs.{name}]"))
        return [
            parts.state(state, self.stores, settings.worker.id, self.clock, seconds),
            parts.database(settings.state.database_url, self.clock, seconds),
            *(
                parts.store(uri, self.stores.of(catalog) if catalog else self.stores, named_by, seconds)
                for uri, (catalog, named_by) in stores.items()
            ),
            *(
                parts.catalog(name, partial(self._format, name), self.stores.of(name), self.clock.now, seconds)
                for name in settings.catalogs
            ),
            parts.java(seconds),
            parts.spark(lambda: self._warm_spark().result(), settings.spark.master, settings.spark.conf)
            if spark
            else parts.spark_left_out(settings.spark.master),
        ]

    def _formats(self) -> dict[str, Format]:
        return {name: self._format(name) for name in self._settings.catalogs}

    def _format(self, name: str) -> Format:
        from lakewarden.formats.registry import opener_of

        section = self._settings.catalogs[name]
        properties = {k: str(v) for k, v in section.properties.items()}
        return opener_of(section.format)(name, properties, self.stores.of(name), partial(self._vend, name))

    def _vend(self, catalog: str, location: str, vended: Mapping[str, str]) -> None:
        """Use for a table's location what its server handed out."""
        if found := store_options(vended):
            self.stores.add(location, found, catalog)

    def _warm_spark(
        self, packages: Sequence[str] = (), progress: Progress | None = None, written: Sequence[str] = ()
    ) -> Future[SparkSession]:
        """Start Spark in the background: the JVM needs seconds, in which catalogs and metadata are read.

        `packages` are jars, by Maven coordinates, that are fetched unless the configuration names jars itself. A process
        has one session, so only whoever asks first can bring jars: the others wait until that start is over, and begin
        one without them if it failed. `progress` is told, by the thread that starts it, of the first start.

        A session that was handed in is there already, with the jars that it has. Executors elsewhere are looked at before
        any work: `written` are places into which they write, beside the state.
        """
        conf = self._settings.spark.conf_strings
        if self._handed_in is None:
            refuse_connect(self._settings.spark.master, conf)
        # Before there is a second thread: PySpark's modules import each other in circles, and where two threads import them
        # at once one of them is handed a module that is half made.
        from lakewarden.formats.registry import format_module
        from lakewarden.pipeline.spark.session import spark_session

        before = self._starting
        tell = progress if progress is not None and before is None else lambda *_: None

        def start() -> SparkSession:
            if before is not None:
                wait([before])
            if self._handed_in is not None:
                return looked_at(self._beside)
            tell(STARTING, 0, 1)
            named = {"spark.jars", "spark.jars.packages"} & conf.keys()
            jars = {"spark.jars.packages": ",".join(packages)} if packages and not named else {}
            formats = {format_module(section.format).__name__ for section in self._settings.catalogs.values()}
            app = f"lakewarden {self._settings.worker.id}"
            session = looked_at(
                spark_session(self._settings.spark.master, {**conf, **jars}, app, formats, self._spark_logs())
            )
            tell(STARTING, 1, 1)
            return session

        def looked_at(session: SparkSession) -> SparkSession:
            from lakewarden.pipeline.spark.preflight import Cluster
            from lakewarden.pipeline.spark.probe import Asked

            cluster = Cluster(session, self._settings.spark.executor_wait_seconds)
            if packages:
                # What Java does needs no Python on the workers.
                cluster.check_java()
            else:
                cluster.check(self.stores, Asked(written=(self.deployment.state, *written)))
            return session

        with_thread = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        future = self._starting = with_thread.submit(start)
        with_thread.shutdown(wait=False)
        return future

    def _spark_logs(self) -> Path | None:
        """The directory for what Spark says; none where the user wants to see it."""
        from lakewarden.pipeline.spark.log_file import LOGS

        if self._verbose:
            return None
        if (state := self._settings.state.local_path) is not None:
            return state / LOGS
        # A user without a home has a cache that cannot be made; the log is then a temporary file.
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path("/", cache, "lakewarden", LOGS)

    @cached_property
    def _beside(self) -> SparkSession:
        """Our session beside the one that was handed in."""
        from lakewarden.pipeline.spark.session import session_beside

        return session_beside(self._handed_in, self._settings.spark.conf_strings)


def store_options(properties: Mapping[str, object]) -> dict[str, str]:
    """What PyIceberg's properties say of the store, in obstore's words."""
    return {S3_NAMES[key]: str(value) for key, value in properties.items() if key in S3_NAMES}
