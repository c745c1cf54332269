"""The S3 calls that obstore lacks, through boto3: one page of a listing, versioning, itemised delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from lakewarden.model.errors import StoreUnavailableError
from lakewarden.storage.bulk_calls import by_hand
from lakewarden.storage.store import unavailable

CHILDREN_PAGES = 20
_LOOKS_AT_ONCE = 16
_TRUE = {"1", "true", "yes", "y", "on"}


class S3Calls:
    """A lazily built boto3 client for one bucket, with obstore's option names."""

    def __init__(self, bucket: str, options: Mapping[str, str]) -> None:
        self.bucket = bucket
        self._options = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
        self._once: dict[tuple[float, float], Any] = {}

    @cached_property
    def client(self) -> Any:
        """For calls that may be repeated: looks, listings, copies."""
        return self._client({"mode": "standard", "total_max_attempts": 4}, 5, 60)

    def sent_once(self, seconds: float, connecting: float) -> Any:
        """For deletes: no request is sent a second time behind our back, and each gives up after so many seconds.

        A client that repeats a delete does it seconds later, when the permit is over and the lease may be lost.
        """
        limits = (seconds, connecting)
        if limits not in self._once:
            once = self._client({"mode": "standard", "total_max_attempts": 1}, connecting, seconds)
            self._once[limits] = by_hand(once)
        return self._once[limits]

    def _client(self, retries: Any, connecting: float, reading: float) -> Any:
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config

        option = self._options.get
        endpoint = option("endpoint") or option("endpoint_url")
        virtual = str(option("virtual_hosted_style_request", "")).lower() in _TRUE
        config = Config(
            retries=retries,
            connect_timeout=connecting,
            read_timeout=reading,
            max_pool_connections=32,
            s3={"addressing_style": "path" if endpoint and not virtual else "auto"},
            signature_version=UNSIGNED if str(option("skip_signature", "")).lower() in _TRUE else None,
        )
        try:
            return boto3.session.Session().client(
                "s3",
                endpoint_url=endpoint,
                region_name=option("region") or option("default_region") or _region(),
                aws_access_key_id=option("access_key_id"),
                aws_secret_access_key=option("secret_access_key"),
                aws_session_token=option("session_token") or option("token"),
                config=config,
            )
        except Exception as error:
            raise unavailable(error, f"opening s3://{self.bucket}") from error

    def children(self, prefix: str) -> tuple[list[str], bool]:
        """Sub-prefixes from at most CHILDREN_PAGES pages; True if there were more (or a page of objects and none)."""
        found: list[str] = []
        token: dict[str, str] = {}
        for _ in range(CHILDREN_PAGES):
            try:
                page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, Delimiter="/", **token)
            except Exception as error:
                raise unavailable(error, f"listing s3://{self.bucket}/{prefix}") from error
            found.extend(item["Prefix"] for item in page.get("CommonPrefixes", ()))
            if not page.get("IsTruncated"):
                return found, False
            if not found:
                return [], True
            if not page.get("NextContinuationToken"):
                raise StoreUnavailableError(
                    f"listing s3://{self.bucket}/{prefix} failed: the store says that there is more, and not where"
                )
            token = {"ContinuationToken": page["NextContinuationToken"]}
        return found, True

    def first_after(self, prefix: str, after: str) -> str | None:
        try:
            page = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, StartAfter=after, MaxKeys=1)
        except Exception as error:
            raise unavailable(error, f"listing s3://{self.bucket}/{prefix}") from error
        for item in page.get("Contents", ()):
            return str(item["Key"])
        return None

    def versioning(self) -> bool | None:
        """Whether deletes only hide; None if we may not ask."""
        try:
            answer = self.client.get_bucket_versioning(Bucket=self.bucket)
        except Exception as error:
            if _status(error) in (403, 501, 405):
                return None
            raise unavailable(error, f"asking s3://{self.bucket} for its versioning") from error
        return answer.get("Status") in ("Enabled", "Suspended")

    def exists(self) -> bool:
        try:
            self.client.head_bucket(Bucket=self.bucket)
        except Exception as error:
            status = _status(error)
            if status == 404:
                return False
            if status == 403:
                return True
            raise unavailable(error, f"looking for s3://{self.bucket}") from error
        return True

    def denied_by_name(self, keys: Sequence[str]) -> list[bool | Exception]:
        """True for each key of which the store says that there is no such key; else what it says in place of that.

        A HEAD has no body, so its 404 may be a missing bucket's, or another server's. The body of a GET tells them apart.
        """
        with ThreadPoolExecutor(min(_LOOKS_AT_ONCE, max(1, len(keys)))) as pool:
            return list(pool.map(self._denied, keys))

    def _denied(self, key: str) -> bool | Exception:
        what = f"looking for s3://{self.bucket}/{key}"
        try:
            self.client.get_object(Bucket=self.bucket, Key=key, Range="bytes=0-0")["Body"].close()
        except Exception as error:
            response = getattr(error, "response", None)
            code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
            return True if code == "NoSuchKey" else unavailable(error, what)
        return StoreUnavailableError(f"{what} failed: the object was missing at one look and there at the next")

    def copy_large(self, src: str, dst: str) -> None:
        """A multipart copy: one CopyObject call ends at 5 GiB."""
        self.copy_from(self.bucket, src, dst)

    def same_service(self, other: S3Calls) -> bool:
        """Whether another bucket is reached at the same endpoint as the same user, so that the server can copy."""
        return self._options == other._options

    def copy_from(self, bucket: str, src: str, dst: str) -> None:
        """A copy by the server from a bucket of the same service, in parts where it is large."""
        try:
            self.client.copy({"Bucket": bucket, "Key": src}, self.bucket, dst)
        except Exception as error:
            raise unavailable(error, f"copying s3://{bucket}/{src}") from error

    def reclass(self, key: str, storage_class: str) -> None:
        """Move an object to another storage class, where it is."""
        try:
            # Some servers take a copy onto itself for a mistake unless the metadata is replaced too; we wrote none.
            extra = {"StorageClass": storage_class, "MetadataDirective": "REPLACE"}
            self.client.copy({"Bucket": self.bucket, "Key": key}, self.bucket, key, ExtraArgs=extra)
        except Exception as error:
            raise unavailable(error, f"moving s3://{self.bucket}/{key} to the class {storage_class}") from error

    def tag(self, key: str, tags: Mapping[str, str]) -> None:
        try:
            pairs = [{"Key": name, "Value": value} for name, value in tags.items()]
            self.client.put_object_tagging(Bucket=self.bucket, Key=key, Tagging={"TagSet": pairs})
        except Exception as error:
            raise unavailable(error, f"tagging s3://{self.bucket}/{key}") from error

    def checksum(self, key: str) -> str | None:
        """The checksum of a whole object that the store keeps, with its algorithm's name; None if it keeps none.

        One that is made of the checksums of parts is none: it depends on where the parts were cut.
        """
        try:
            found = self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        except Exception as error:
            raise unavailable(error, f"looking at s3://{self.bucket}/{key}") from error
        if found.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
            return None
        for name in ("SHA256", "CRC64NVME", "SHA1"):
            if (value := found.get(f"Checksum{name}")) and "-" not in value:
                return f"{name.lower()}:{value}"
        return None

    def storage_class(self, key: str) -> str | None:
        """The class that the store says an object has; None is its default."""
        try:
            found = self.client.head_object(Bucket=self.bucket, Key=key).get("StorageClass")
        except Exception as error:
            raise unavailable(error, f"looking at s3://{self.bucket}/{key}") from error
        return None if found is None else str(found)


def _status(error: Exception) -> int | None:
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return None
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return int(status) if status is not None else None


def _region() -> str:
    import os

    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
