"""Labels have few values, whatever a store says."""

from __future__ import annotations

from collections import Counter

from lakewarden.model.metrics import ERRORS, OTHER, Ended, of_run

CODES = ("LW-STORE-001", "errno-13", "AccessDenied", "SlowDown")


def test_a_store_that_says_another_code_for_each_file_begins_no_series() -> None:
    strange = [f"E-{number}" for number in range(50)] + ["LW-STORE-001x", "errno-99999", "", "None", "a" * 100_000]
    failed = [{"uri": "s3://b/x", "code": code, "message": ""} for code in (*CODES, *strange)]
    run = Ended("orphan-cleanup", "partial", 1.0, {"failed": failed}, failed_files=len(failed) + 7)
    found = Counter[str]()
    for sample in of_run(run):
        if sample.metric is ERRORS:
            found[sample.labels[1]] += int(sample.value)
    assert found == {**dict.fromkeys(CODES, 1), OTHER: len(strange) + 7}
