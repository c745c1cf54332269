"""Apache's own REST catalog for tests: Iceberg's test servlet over a SQLite catalog, on the loopback address only.

The jars come from Maven by Ivy, which pyspark carries. Iceberg's own `main` listens on every address of the machine,
so its parts are put together here, by Py4J, in a JVM that ends with the tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.missing import missing

VERSION = "1.11.0"  # the newest whose test classes are published
IVY_FILE = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="lakewarden" module="rest-catalog"/>
  <dependencies>
    <dependency org="org.apache.iceberg" name="iceberg-open-api" rev="{VERSION}" conf="default->master">
      <artifact name="iceberg-open-api" type="jar" m:classifier="test-fixtures"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="{VERSION}" conf="default->default">
      <artifact name="iceberg-core" type="jar"/>
      <artifact name="iceberg-core" type="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-aws" rev="{VERSION}" conf="default->master"/>
    <dependency org="org.apache.iceberg" name="iceberg-aws-bundle" rev="{VERSION}" conf="default->master"/>
    <dependency org="dev.failsafe" name="failsafe" rev="3.3.2" conf="default->master"/>
    <dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="12.1.8" conf="default->default"/>
    <dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0" conf="default->master"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="2.0.17" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


class JarsMissingError(Exception):
    """The jars of a test server cannot be fetched here."""


@dataclass(frozen=True)
class RestCatalog:
    """A running REST catalog, and how to stop it."""

    uri: str
    stop: Callable[[], None]


class RestJvm:
    """The JVM that the REST catalogs of a test run share."""

    def __init__(self) -> None:
        from py4j.java_gateway import JavaGateway

        from lakewarden.pipeline.spark.java import use_java

        use_java()
        spark = _carried()
        hadoop = [str(jar) for jar in sorted(spark.glob("hadoop-client-*.jar"))]
        self._gateway = JavaGateway.launch_gateway(
            jarpath=str(next(spark.glob("py4j-*.jar"))),
            classpath=os.pathsep.join([*rest_jars(), *hadoop]),
            javaopts=["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"],
            java_path=None,
            die_on_exit=True,
            enable_auth=True,
        )
        self._jvm: Any = self._gateway.jvm

    def serve(self, properties: Mapping[str, str]) -> RestCatalog:
        """A catalog of these properties (Iceberg's Java names) on a free port."""
        settings = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            # Each connection would have an empty database of its own, were it not shared by name.
            "uri": f"jdbc:sqlite:file:{uuid.uuid4().hex}?mode=memory&cache=shared",
            "jdbc.schema-version": "V1",
            **properties,
        }
        config = self._jvm.java.util.HashMap()
        for key, value in settings.items():
            config.put(key, value)
        catalog = self._jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
            "rest_backend", config, self._jvm.org.apache.hadoop.conf.Configuration()
        )
        context = self._hidden("org.apache.iceberg.rest.RESTCatalogServer$CatalogContext", catalog, config)
        adapter = self._hidden("org.apache.iceberg.rest.RESTServerCatalogAdapter", context)
        jetty = self._jvm.org.eclipse.jetty
        handler = jetty.ee10.servlet.ServletContextHandler()
        servlet = self._jvm.org.apache.iceberg.rest.RESTCatalogServlet(adapter)
        handler.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(self._jvm.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handler)
        server.start()
        return RestCatalog(f"http://127.0.0.1:{server.getConnectors()[0].getLocalPort()}", server.stop)

    def close(self) -> None:
        self._gateway.shutdown()
        process = self._gateway.java_process
        if process is not None:
            process.stdin.close()
            process.wait(30)

    def _hidden(self, name: str, *arguments: Any) -> Any:
        """An object of a class that only its own package may name."""
        maker = self._jvm.java.lang.Class.forName(name).getDeclaredConstructors()[0]
        maker.setAccessible(True)
        given = self._gateway.new_array(self._jvm.java.lang.Object, len(arguments))
        for place, argument in enumerate(arguments):
            given[place] = argument
        return maker.newInstance(given)


Serve = Callable[[Mapping[str, str]], RestCatalog]


@pytest.fixture(scope="session")
def rest_jvm() -> Iterator[RestJvm]:
    try:
        jvm = RestJvm()
    except JarsMissingError as error:
        missing(error)
    yield jvm
    jvm.close()


@pytest.fixture
def serve(rest_jvm: RestJvm) -> Iterator[Serve]:
    """Starts REST catalogs that stop with the test."""
    started: list[RestCatalog] = []

    def start(properties: Mapping[str, str]) -> RestCatalog:
        started.append(rest_jvm.serve(properties))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def rest_jars() -> list[str]:
    """The class path of the catalog. Raises JarsMissingError."""
    return settled_jars(IVY_FILE)


def settled_jars(ivy_file: str) -> list[str]:
    """The jars that an Ivy file names, fetched once, by one test process at a time. Raises JarsMissingError."""
    record = Path(sys.prefix) / f"jars-{hashlib.sha256(ivy_file.encode()).hexdigest()[:8]}.classpath"
    with record.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if record.exists():
            known = record.read_text(encoding="utf-8").split(os.pathsep)
            if all(Path(jar).exists() for jar in known):
                return known
        found = fetch_jars(ivy_file)
        record.write_text(os.pathsep.join(found), encoding="utf-8")
        return found


def fetch_jars(ivy_file: str) -> list[str]:
    """The jars that an Ivy file names, from Ivy's cache or from Maven. Raises JarsMissingError."""
    ivy = next(_carried().glob("ivy-*.jar"))
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
    with TemporaryDirectory() as scratch:
        asked, answer = Path(scratch) / "ivy.xml", Path(scratch) / "classpath"
        asked.write_text(ivy_file, encoding="utf-8")
        command = [str(java), "-jar", str(ivy), "-warn", "-ivy", str(asked), "-cachepath", str(answer)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        if done.returncode != 0 or not answer.exists():
            raise JarsMissingError(
                f"the jars of a test server cannot be fetched: {(done.stdout + done.stderr)[-2000:]}"
            )
        return answer.read_text(encoding="utf-8").strip().split(os.pathsep)


def _carried() -> Path:
    """The jars that pyspark carries: the gateway's, Hadoop's and Ivy's are among them."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"
