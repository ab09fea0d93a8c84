"""Verdicts of a batch as one `ExpectationSuiteValidationResult` of Great Expectations, in its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.quality.check.verdicts import Verdict
    from rocketflow.quality.suites.suite_plan import SuitePlan


class SuiteResultForm:
    """The form of GX's own validation result of a suite, built once by GX's classes; a batch fills in its verdicts.

    For ten expectations these classes take 10 ms, as long as the commit of a small batch.
    """

    def __init__(self, plan: SuitePlan) -> None:
        from great_expectations import __version__
        from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
        from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

        results = []
        for one in plan.checks:
            config = one.gx.configuration.to_json_dict()
            results.append(
                ExpectationValidationResult(
                    success=True,
                    expectation_config=ExpectationConfiguration(
                        type=config["type"],
                        kwargs=config["kwargs"],
                        meta=config.get("meta") or {},
                        severity=config.get("severity"),
                    ),
                    result={},
                    exception_info={"raised_exception": False, "exception_traceback": None, "exception_message": None},
                )
            )
        made: Any = ExpectationSuiteValidationResult(
            success=True,
            results=results,
            suite_name=plan.suite.name,
            suite_parameters={},
            statistics={},
            meta={"great_expectations_version": __version__, "suite_version": plan.suite.version},
        )
        self._form: dict[str, Any] = made.to_json_dict()

    def filled(self, run_name: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """Return the result of a batch, its verdicts in the plan's order, without times: a replay gives the same."""
        met = sum(one.success for one in verdicts)
        return {
            **self._form,
            "success": met == len(verdicts),
            "results": [
                {**form, "success": one.success, "result": one.result}
                for form, one in zip(self._form["results"], verdicts, strict=True)
            ],
            "statistics": {
                "evaluated_expectations": len(verdicts),
                "successful_expectations": met,
                "unsuccessful_expectations": len(verdicts) - met,
                "success_percent": 100.0 * met / len(verdicts) if verdicts else None,
            },
            "meta": {**self._form["meta"], "run_name": run_name},
        }
