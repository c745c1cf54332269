"""Every safety margin in one value: how long, how far apart, how many, and which hazard each of them covers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Margins:
    """Names that end in `_seconds` are counted by a boot clock, the other times by wall clocks."""

    # The least grace of orphan cleanup. A job that writes files now and commits them hours later must not lose them.
    grace_floor: timedelta = timedelta(hours=24)
    # The least delay of physical deletion. A query that was planned on a snapshot just before it expired still opens
    # that snapshot's files.
    visibility_floor: timedelta = timedelta(hours=1)
    # How far two clocks may be apart. A store whose clock is ahead makes young files look old, so it is refused; a lease
    # that another machine renewed is called silent only that much later.
    clock_skew: timedelta = timedelta(minutes=5)
    # How long a plan may wait for its apply. A lake drifts away from what a person has read and approved.
    plan_lifetime: timedelta = timedelta(hours=24)
    # How old a validation may be when its batch goes. A table that commits in between may need one of its files.
    validation_seconds: float = 30.0
    # How long a lease lives that nobody renews. A worker that hangs must not block its root for a night.
    lease_seconds: float = 120.0
    # The share of a lease's life in which its holder may work. A holder that cannot renew has to stop before anybody
    # else begins: 80 of 120 seconds leave 40 for a call that is under way.
    lease_work_share: float = 2 / 3
    # The share of a lease's life by which a taker waits longer than it. Boot clocks of two machines go at slightly different
    # rates, one of them may be slowed down: 30 of 300 seconds.
    lease_drift_share: float = 0.1
    # How often a lease is renewed in its life. Several renewals may fail in a row before the work has to stop.
    lease_renewals: int = 10
    # The longest time between two renewals, however long the lease lives: whoever waits for its holder to be seen at work
    # waits that long.
    lease_renewal_seconds: float = 90.0
    # How long a lease that others write to at the same moment is tried for.
    lease_write_seconds: float = 20.0
    # How long a table waits for the lease of its directory. Tables that share a directory are expired in turns.
    lease_wait_seconds: float = 60.0
    # How long a writer's files stay in flight after its last heartbeat. A writer may pause for a garbage collection.
    heartbeat_seconds: int = 300
    # How much longer they stay in flight once a heartbeat has run out and was not ended. A writer that is cut off from the
    # state goes on writing, and commits what it began a week ago.
    heartbeat_grace: timedelta = timedelta(hours=24)
    # How long released files stay where a commit may have taken somebody's ref. A person has to notice that the ref is
    # gone, and to make it again.
    lost_ref: timedelta = timedelta(days=30)
    # How long a table has to be missing from a healthy catalog until it counts as dropped. A catalog that was restored
    # from a backup, or that lost a page of its listing, leaves tables out whose files are all still needed.
    drop_grace: timedelta = timedelta(hours=24)
    # When a run stops because files are gone already: at least so many of them, and more than this share of all that
    # it touched. Somebody else deletes here, or the store lost a directory.
    absent_files: int = 20
    absent_share: float = 0.2
    # How far apart a file is looked for twice before it counts as gone. A store that is being mounted, or that fails over
    # to its replica, answers for a moment that a file is not there.
    second_look_seconds: float = 3.0


MARGINS = Margins()
