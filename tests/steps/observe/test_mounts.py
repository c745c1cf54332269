"""One directory at two places without a link: the kernel's table of mounts tells, and the roots are refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.steps.observe.links import aliased, reached_by_links
from lakewarden.steps.observe.mounts import Mounts, real

TABLE = """\
27 1 254:0 / / rw - ext4 /dev/vda rw
30 27 254:0 /data/wh /bind rw - ext4 /dev/vda rw
31 27 0:30 / /nfs/one rw - nfs server:/x rw
32 27 0:30 / /nfs/two rw - nfs server:/x rw
33 27 0:31 /volumes/a /k8s/a rw - ext4 /dev/vdb rw
34 27 0:31 /volumes/b /k8s/b\\040c rw - ext4 /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("path", "one"),
    [
        ("/data/wh/t", "/data/wh/t"),
        ("/bind/t", "/data/wh/t"),
        ("/bind", "/data/wh"),
        ("/binder/t", "/binder/t"),
        ("/nfs/one/t", "/nfs/one/t"),
        ("/nfs/two/t", "/nfs/one/t"),
        ("/k8s/a/t", "/k8s/a/t"),
        ("/k8s/b c/t", "/k8s/b c/t"),
        ("/", "/"),
    ],
)
def test_a_directory_has_one_name(path: str, one: str) -> None:
    assert Mounts(TABLE).one_name(path) == one


def test_without_a_table_every_path_is_where_it_says() -> None:
    assert Mounts("").one_name("/a/b") == "/a/b"


@pytest.mark.parametrize(
    ("prefix", "one"),
    [
        ("file:///bind/t/", "file:///data/wh/t/"),
        ("file:///bind/t/data-", "file:///data/wh/t/data-"),
        # What names begin with may be no more than the top, and never the directory that a process happens to be in.
        ("file:///", "file:///"),
        ("file:///d", "file:///d"),
        ("s3://bucket/bind/", "s3://bucket/bind/"),
    ],
)
def test_so_have_names_in_it(prefix: str, one: str) -> None:
    assert real(prefix, Mounts(TABLE)) == one


@pytest.fixture
def twice(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A directory, and the place where it is mounted a second time."""
    first, second = tmp_path / "wh", tmp_path / "bind"
    (first / "t").mkdir(parents=True)
    second.mkdir()
    if subprocess.run(["mount", "--bind", first, second], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield first, second
    subprocess.run(["umount", second], check=True)


def test_a_directory_that_is_mounted_twice_is_refused_under_both_names(twice: tuple[Path, Path]) -> None:
    first, second = (f"file://{place}/t/" for place in twice)
    assert aliased([first, second], []).keys() == {first, second}
    assert "a second mount" in aliased([first, second], [])[first].message
    assert aliased([first], []) == {}
    assert reached_by_links([first], [f"file://{twice[1]}/t/data/"]).keys() == {first}
    assert reached_by_links([first], [f"file://{twice[0]}/t/data/"]) == {}
    assert reached_by_links([second], [f"file://{twice[1]}/t/data/"]) == {}, "one name everywhere, whichever it is"
