"""The groups of the whole fleet, best first: the curve of what they are worth, and where a budget cuts it.

In Spark's columns: groups grow with the lake, and no list of them comes to the driver.
"""

from __future__ import annotations

from dataclasses import fields

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakewarden.model.worth import POINTS, Budget, Ranked, Worth, summed_up

SUMS = [one.name for one in fields(Worth)]


def rank(groups: DataFrame, budget: Budget) -> Ranked:
    """`group`, `per_cost` and the numbers of a Worth in, one row a group.

    Groups are taken while those before them are within the budget: the one that reaches it is still taken, so that a
    budget smaller than every group does not mean that nothing is ever done.
    """
    # The budget is one for all, so that all rows are one window: each of them is one group.
    together = Window.partitionBy("groups")
    best_first = together.orderBy(F.desc("per_cost"), "group")
    before = F.coalesce(F.sum("bytes").over(best_first.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    whole = F.greatest(F.sum("bytes").over(together), F.lit(1))
    place = F.struct((-F.col("per_cost")).alias("worse"), F.col("group").alias("name"))
    beyond = F.lit(False) if budget.bytes is None else F.col("before") >= budget.bytes
    ranked = groups.withColumn("before", before).withColumn("stretch", F.floor(F.col("before") * POINTS / whole))
    rows = (
        ranked.groupBy("stretch")
        .agg(*(F.sum(name).alias(name) for name in SUMS), F.min(F.when(beyond, place)).alias("beyond"))
        .toArrow()
        .sort_by("stretch")
        .to_pylist()
    )
    firsts = [(row["beyond"]["worse"], row["beyond"]["name"]) for row in rows if row["beyond"] is not None]
    return Ranked(summed_up(Worth.of(row) for row in rows), min(firsts, default=None))
