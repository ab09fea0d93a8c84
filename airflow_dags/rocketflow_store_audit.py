"""Verify every byte of a store daily, and keep the reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, CronTriggerTimetable, Metadata, Param, dag, get_current_context, task
from rocketflow_dag_parts import DEFAULT_ARGS, START, connection_param, date_of, deadline

REPORTS = Asset("rocketflow_audit_reports")


@dag(
    schedule=CronTriggerTimetable("0 5 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    dagrun_timeout=timedelta(hours=12),
    deadline=deadline(timedelta(hours=6)),
    tags=["rocketflow", "store", "audit"],
    params={
        "conn_id": connection_param(),
        "report_dir": Param(
            None,
            type=["null", "string"],
            title="Report directory",
            description="Overrides the connection's audit_dir; without either AIRFLOW_HOME/rocketflow-audit.",
        ),
        "keep": Param(
            90, type="integer", minimum=1, title="Keep", description="Number of reports of the store to keep."
        ),
        "fail_on": Param(
            "findings",
            type="string",
            enum=["findings", "lost", "nothing"],
            title="Fail on",
            description="findings: any finding; lost: only lost messages; nothing: never, only report.",
        ),
    },
    doc_md="""
### Store audit

`rocketflow store verify` checks every record, queue unit and index entry, and changes nothing. Its complete result is
kept as `DIRECTORY/CONNECTION/LOGICAL-DATE.json` (a repeated run overwrites its report), with `history.json` beside it;
the oldest reports are deleted. Then the run fails if the result has what `fail_on` names.
""",
)
def rocketflow_store_audit() -> None:
    @task(
        outlets=[REPORTS], doc_md="`rocketflow store verify`; writes the report, updates the history. XCom: a summary."
    )
    def verify_and_report() -> Any:
        import os
        from pathlib import Path

        from rocketflow.airflow.audit import AuditReports
        from rocketflow.airflow.hook import RocketFlowStoreHook
        from rocketflow.airflow.rebuild_plan import summarise

        context = get_current_context()
        params = context["params"]
        hook = RocketFlowStoreHook(params["conn_id"])
        result = hook.verify()
        summary = summarise(result)
        home = os.environ.get("AIRFLOW_HOME") or os.path.expanduser("~/airflow")
        place = params["report_dir"] or hook.store.audit_dir or os.path.join(home, "rocketflow-audit")
        when = date_of(context)
        report = {
            "store": hook.store.path,
            "connection": hook.conn_id,
            "logicalDate": when.isoformat(),
            "runId": context["run_id"],
            "exitCode": result.pop("exitCode"),
            "summary": {name: value for name, value in summary.items() if name != "findings"},
            "result": result,
        }
        path = AuditReports(Path(place), hook.conn_id).keep(when, report, params["keep"])
        yield Metadata(REPORTS, {"store": hook.store.path, "report": str(path)})
        return {**summary, "store": hook.store.path, "report": str(path)}

    @task(doc_md="Fails the run if the report has what `fail_on` names.")
    def judge(report: dict[str, Any]) -> None:
        from airflow.sdk.exceptions import AirflowFailException

        fail_on = get_current_context()["params"]["fail_on"]
        bad = {"findings": report["findingCount"], "lost": report["lostRecords"], "nothing": 0}[fail_on]
        if bad:
            raise AirflowFailException(
                f"store {report['store']}: `rocketflow store verify` has {report['findingCount']} findings, "
                f"{report['lostRecords']} lost records: {report['findingsByKind']}; see {report['report']}"
            )

    judge(verify_and_report())


rocketflow_store_audit()
