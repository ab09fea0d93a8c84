"""Verdicts of a batch as one `ExpectationSuiteValidationResult` of Great Expectations, in its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.quality.suite import Suite
    from rocketflow.quality.verdicts import Verdict


def suite_result(suite: Suite, run_name: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What GX's own validation of the suite would give, by its own classes. No times: a replay gives the same."""
    from great_expectations import __version__
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    results = []
    for one in verdicts:
        raw = one.result
        config = raw["expectation_config"]
        results.append(
            ExpectationValidationResult(
                success=raw["success"],
                expectation_config=ExpectationConfiguration(
                    type=config["type"],
                    kwargs=config["kwargs"],
                    meta=config.get("meta") or {},
                    severity=config.get("severity"),
                ),
                result=raw["result"],
                exception_info={"raised_exception": False, "exception_traceback": None, "exception_message": None},
            )
        )
    met = sum(one.success for one in verdicts)
    made: Any = ExpectationSuiteValidationResult(
        success=met == len(verdicts),
        results=results,
        suite_name=suite.name,
        suite_parameters={},
        statistics={
            "evaluated_expectations": len(verdicts),
            "successful_expectations": met,
            "unsuccessful_expectations": len(verdicts) - met,
            "success_percent": 100.0 * met / len(verdicts) if verdicts else None,
        },
        meta={"great_expectations_version": __version__, "run_name": run_name, "suite_version": suite.version},
    )
    found: dict[str, Any] = made.to_json_dict()
    return found
