"""The process that decodes: it can be killed when a damaged file makes the decoder hang.

Says with an empty line that it is ready. Then reads one request a line: {"columns": {name: dotted field}, "seconds", "memory"}; writes the columns as an
Arrow file and answers with one line: {"rows": n}; {"error": text} for a file that
it cannot decode, {"trouble": text} where the machine failed and the file may be whole.
When nobody can ask any more it removes the directory of these files: a Spark worker ends without cleaning up.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
from contextlib import suppress
from functools import reduce
from typing import Any, TextIO

import pyarrow as pa
from datafusion import SessionConfig, SessionContext, col

from lakewarden.storage.scratch import DECODED, TO_DECODE, UNFINISHED, drop_decoder_directory


def decode(scratch: str, columns: dict[str, str]) -> int:
    """Read the named fields of the Avro file there, rows in file order, into an Arrow file beside it."""
    source, target, unfinished = (os.path.join(scratch, name) for name in (TO_DECODE, DECODED, UNFINISHED))
    context = SessionContext(SessionConfig().with_target_partitions(1))
    wanted = [_field(path).alias(name) for name, path in columns.items()]
    table = context.read_avro(source).select(*wanted).to_arrow_table()
    with pa.OSFile(unfinished, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    # Never written over: the answer before may still be mapped by the one who asked.
    os.replace(unfinished, target)
    return int(table.num_rows)


def _field(path: str) -> Any:
    first, *rest = path.split(".")
    return reduce(lambda expression, name: expression[name], rest, col(f'"{first}"'))


def serve(requests: TextIO, answers: TextIO, scratch: str) -> None:
    """Answer until whoever asks is gone, whatever ended it: signals to both would leave the files behind."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(BrokenPipeError):
        answers.write("\n")  # ready: the time that a file may take does not begin before
        answers.flush()
        for line in requests:
            request = json.loads(line)
            # Kills a decoder that hangs, should whoever waits for it be gone by then.
            signal.alarm(math.ceil(request["seconds"]) + 1)
            _limit_memory(request["memory"])
            answers.write(json.dumps(_answer(scratch, request)) + "\n")
            answers.flush()
            signal.alarm(0)
    drop_decoder_directory(scratch)


def _limit_memory(allowed: int) -> None:
    """Up to so many bytes more than now. A damaged file that asks for more ends this process, and no other."""
    with suppress(OSError, ValueError):  # a system that does not count a process's memory
        with open("/proc/self/statm") as counts:
            used = int(counts.read().split()[5]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (used + allowed, most))


def _answer(scratch: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"rows": decode(scratch, request["columns"])}
    except OSError as error:
        return {"trouble": f"{type(error).__name__}: {error}"[:500]}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, sys.argv[1])
