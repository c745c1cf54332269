"""The gateway over TLS, on both of its sides: certificates of the test's own, and what is said of those that do not fit."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError

import lakewarden
from tests.gateway.load import IN_MEMORY
from tests.gateway.raw import error_of
from tests.gateway.recorder import talk
from tests.support.gateways import gateway
from tests.support.missing import missing
from tests.support.rest import Serve

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    if shutil.which("openssl") is None:
        missing(RuntimeError("openssl is not installed (apt-get install openssl)"))
    place = tmp_path_factory.mktemp("tls")
    certificate, key = place / "certificate.pem", place / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lakewarden-test"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *names], check=True, capture_output=True, timeout=60)
    return certificate, key


def test_clients_and_catalog_are_spoken_to_over_tls(
    serve: Serve, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway in front of a gateway: the inner one is the outer one's catalog, with a certificate of its own."""
    pem, key = certificate
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)  # PyIceberg's client believes them more than its own setting
    secure = f'tls_certificate = "{pem}"\ntls_key = "{key}"'
    catalog = serve({**IN_MEMORY, "warehouse": f"file://{tmp_path}/warehouse"})
    with (
        gateway(tmp_path / "inner", catalog.uri, "", secure) as inner,
        gateway(tmp_path / "outer", inner.uri, more=f'{secure}\nupstream_ca = "{pem}"') as outer,
        gateway(tmp_path / "strange", inner.uri) as strange,
    ):
        assert outer.uri.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(pem))
        with urllib.request.urlopen(f"{outer.uri}/v1/config", timeout=20, context=trusting) as answer:
            handed = json.load(answer)
        assert inner.uri not in json.dumps(handed)
        lake = load_catalog("lake", type="rest", uri=outer.uri, ssl={"cabundle": str(pem)})
        lake.create_namespace("db")
        table = lake.create_table("db.orders", ROWS.schema)
        with pytest.raises(BadRequestError, match=r"writer\.id is missing"):
            table.append(ROWS)
        table.append(ROWS, snapshot_properties=lakewarden.lineage("ingest").properties(table=table))
        assert table.refresh().scan().to_arrow().num_rows == 2

        # Nobody is believed without a certificate that is known, and no plain request is answered.
        found = error_of(talk(strange.uri, b"GET /v1/config HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"))
        assert found["message"].startswith("LW-GATEWAY-001")
        assert "gateway.upstream_ca" in found["message"]
        plain = outer.uri.replace("https://", "http://")
        assert talk(plain, b"GET /v1/config HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n") == b""
        assert [one.stop() for one in (outer, strange, inner)] == [0, 0, 0]
    assert not any("Traceback" in one.log.read_text() for one in (outer, inner, strange))


@pytest.mark.parametrize("wrong", ["tls_certificate", "tls_key", "upstream_ca"])
def test_a_certificate_that_is_none_is_an_error_of_the_configuration(
    certificate: tuple[Path, Path], tmp_path: Path, wrong: str
) -> None:
    pem, key = certificate
    files = {"tls_certificate": pem, "tls_key": key, "upstream_ca": pem}
    files[wrong] = tmp_path / "nonsense.pem"
    files[wrong].write_text("nonsense")
    lines = [f'{name} = "{path}"' for name, path in files.items()]
    config = tmp_path / "gateway.toml"
    config.write_text(
        "\n".join(["[gateway]", 'catalog = "lake"', 'upstream = "https://127.0.0.1:1"', "port = 0", *lines])
    )
    done = subprocess.run(
        [sys.executable, "-m", "lakewarden", "gateway", "--config", str(config)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 64
    assert "LW-CONF-001" in done.stderr
    assert "no gateway was started" in done.stderr
    assert "Traceback" not in done.stderr
