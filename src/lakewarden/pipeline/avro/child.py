"""The process that decodes: it can be killed when a damaged file makes the decoder hang.

Reads one request a line: {"source", "target", "columns": {name: dotted field}}; writes the columns as an
Arrow file and answers with one line: {"rows": n}; {"error": text} for a file that
it cannot decode, {"trouble": text} where the machine failed and the file may be whole.
"""

from __future__ import annotations

import json
import os
import sys
from functools import reduce
from typing import Any

import pyarrow as pa
from datafusion import SessionConfig, SessionContext, col


def decode(source: str, target: str, columns: dict[str, str]) -> int:
    """Read the named fields of an Avro file, rows in file order, into an Arrow file."""
    context = SessionContext(SessionConfig().with_target_partitions(1))
    wanted = [_field(path).alias(name) for name, path in columns.items()]
    table = context.read_avro(source).select(*wanted).to_arrow_table()
    with pa.OSFile(f"{target}.new", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    # Never written over: the answer before may still be mapped by the one who asked.
    os.replace(f"{target}.new", target)
    return int(table.num_rows)


def _field(path: str) -> Any:
    first, *rest = path.split(".")
    return reduce(lambda expression, name: expression[name], rest, col(f'"{first}"'))


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer: dict[str, Any] = {"rows": decode(request["source"], request["target"], request["columns"])}
        except OSError as error:
            answer = {"trouble": f"{type(error).__name__}: {error}"[:500]}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
