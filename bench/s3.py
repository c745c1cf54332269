"""The S3 server of the benchmarks, and lakes on it. What it holds is kept in the scratch directory between runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.store import S3Store

from bench.lakes import SHAPES, Lake, build, shrunk
from tests.support.seaweed import s3_client, start_seaweed
from tests.support.spark import REGION

WRITERS = 32


@dataclass(frozen=True, slots=True)
class Server:
    """Where it listens and who may enter."""

    endpoint: str
    access_key: str
    secret_key: str
    base: Path

    def store(self, bucket: str) -> S3Store:
        return S3Store(
            bucket,
            endpoint=self.endpoint,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region=REGION,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": "300s"},
        )

    def lake(self, kind: str, shrink: int = 1, anew: bool = False) -> Lake:
        """The lake of that kind in a bucket of its own, built if it is not there, or in any case."""
        bucket = f"{kind}-{shrink}"
        base = self.base / bucket
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{base}/catalog.db",
            "warehouse": f"s3://{bucket}/wh",
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.region": REGION,
        }
        client = s3_client(self.endpoint, self.access_key, self.secret_key)
        if bucket not in {found["Name"] for found in client.list_buckets().get("Buckets", [])}:
            client.create_bucket(Bucket=bucket)
        if anew:
            shutil.rmtree(base, ignore_errors=True)
            store = self.store(bucket)
            for batch in obstore.list(store):
                obstore.delete(store, [found["path"] for found in batch])
        return build(Lake(kind.replace("-", "_"), shrunk(SHAPES[kind], shrink), properties, base), self.put(bucket))

    def put(self, bucket: str) -> Callable[[list[str], bytes], None]:
        store = self.store(bucket)

        def put(names: list[str], content: bytes) -> None:
            keys = [name.removeprefix(f"s3://{bucket}/") for name in names]
            with ThreadPoolExecutor(WRITERS) as pool:
                for _ in pool.map(lambda key: obstore.put(store, key, content, use_multipart=False), keys):
                    pass

        return put


@contextmanager
def server(scratch: Path) -> Iterator[Server]:
    """The server, over what earlier runs left in it."""
    endpoint, access, secret, stop = start_seaweed(scratch / "seaweed")
    try:
        yield Server(endpoint, access, secret, scratch / "s3")
    finally:
        stop()
