"""A night of Lakewarden as an Airflow DAG: two commands, run as processes of the worker. For Airflow 3.

Lakewarden is installed in an environment of its own, because its packages and Airflow's need not agree.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="lakewarden",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    check = BashOperator(
        task_id="check",
        bash_command="/opt/lakewarden/bin/lakewarden config check --config /etc/lakewarden/lakewarden.toml",
    )
    # Repeating is safe: a run that was stopped is gone on with, and a plan is used once.
    night = BashOperator(
        task_id="night",
        bash_command=(
            "/opt/lakewarden/bin/lakewarden run all --config /etc/lakewarden/lakewarden.toml "
            "--trigger schedule --operator airflow --ticket '{{ run_id }}'"
        ),
        retries=2,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=6),
    )
    check >> night
