"""Airflow's side of RocketFlow: connection, operators and a sensor, all of which run the `rocketflow` command.

Nothing here needs PySpark, PyArrow or the store: Airflow has an environment of its own (`airflow_dags/README.md`).
"""
