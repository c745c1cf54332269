"""What groups are worth together, how fast they are rewritten, and what a budget allows."""

from __future__ import annotations

from lakewarden.model.worth import MEASURED_BYTES, OPENING_BYTES, Budget, Rate, Worth, summed_up

DAY = 86_400


def test_more_saved_for_fewer_bytes_is_better() -> None:
    many = Worth(groups=1, files=10, files_after=1, bytes=OPENING_BYTES, written_bytes=OPENING_BYTES, requests=9)
    assert many.per_cost == 4.5
    assert Worth(groups=1, files=1, files_after=2, bytes=100, written_bytes=100, requests=-1).per_cost < 0
    assert Worth(requests=1).per_cost > many.per_cost


def test_the_sum_after_each_part() -> None:
    one, two = Worth(groups=1, bytes=10, requests=5), Worth(groups=2, bytes=30, requests=1)
    assert [(point.bytes, point.requests) for point in summed_up([one, two])] == [(10, 5), (40, 6)]


def test_a_rate_is_set_or_measured_over_enough_bytes() -> None:
    assert Rate.known(0, []) is None
    assert Rate.known(0, [(MEASURED_BYTES - 1, 1.0)]) is None
    assert Rate.known(0, [(MEASURED_BYTES, 1.0), (MEASURED_BYTES, 3.0)]) == Rate(MEASURED_BYTES / 2, measured=True)
    assert Rate.known(7, [(MEASURED_BYTES, 1.0)]) == Rate(7.0, measured=False)


def test_the_budget_is_the_smaller_of_what_is_set_and_what_a_day_allows() -> None:
    assert Budget.of(0, 0.5, None) == Budget()
    assert Budget.of(100, 0.5, None).bytes == 100
    assert Budget.of(0, 0.5, Rate(10.0, measured=True)) == Budget(5 * DAY, "bandwidth_share = 0.5 of 24 hours")
    assert Budget.of(100, 0.5, Rate(10.0, measured=True)) == Budget(100, "max_bytes_per_run = 100")
