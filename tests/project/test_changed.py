"""The tests of a change: the right ones, the nearest first, as many as fit: see `changed`."""

from __future__ import annotations

from tests.project.changed import distance_by_place, fitting, nearest


def test_tests_of_a_module_near_the_top_are_those_of_its_package_and_of_its_importers() -> None:
    found = nearest(["rocketflow/kafka/offset_map.py"], {})
    files = list(found)
    assert found["tests/rocketflow/kafka/test_offset_map.py"] == 1
    assert found["tests/project/test_shape.py"] == 2  # a rule reads the code of all modules
    assert files.index("tests/rocketflow/kafka/test_offset_map.py") < files.index("tests/project/test_shape.py")
    assert not [one for one in files if one.startswith("tests/store/engine/")]


def test_tests_of_a_module_of_the_ground_floor_are_sorted_by_imports_and_seconds() -> None:
    long, short = "tests/store/records/test_scan_runs.py", "tests/store/fsck/test_put_back.py"
    found = nearest(["store/rocketflow_store/format/record.py"], {long: 9.0, short: 0.5})
    assert found[long] == found[short] == 1
    assert list(found).index(short) < list(found).index(long)
    assert found["tests/rocketflow/client/test_messages.py"] > 1
    assert list(found.values()) == sorted(found.values())


def test_tests_that_need_a_changed_helper_or_conftest_are_found() -> None:
    helper = nearest(["tests/support/kafka_broker.py"], {})
    assert {one.split("/")[2] for one in helper} == {"kafka"}
    assert "tests/rocketflow/kafka/test_start.py" in nearest(["tests/rocketflow/kafka/conftest.py"], {})


def test_tests_that_name_a_changed_file_are_near() -> None:
    assert distance_by_place("tests/rocketflow/x/test_y.py", 'PAGE = "OPERATIONS.md"', ["OPERATIONS.md"]) == 1
    assert distance_by_place("tests/project/test_site.py", "", ["OPERATIONS.md"]) == 2
    assert distance_by_place("tests/rocketflow/x/test_y.py", "", ["OPERATIONS.md"]) is None


def test_files_run_until_their_seconds_fill_the_time() -> None:
    assert fitting(["a", "b", "c"], {"a": 1.0, "b": 2.0, "c": 0.1}, 3.0) == ["a", "b"]
