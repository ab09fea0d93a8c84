"""The Airflow provider: a connection type, operators and a sensor that run the `rocketflow` command.

It needs neither PySpark nor PyArrow nor the store: Airflow has its own environment (`airflow_dags/README.md`).
"""
