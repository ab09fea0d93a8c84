"""Options of clients: their bounds are those of their rows."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from rocketflow.client.errors import ClientError
from rocketflow.client.options import ClientOptions
from rocketflow.client.produce.options import ProducerOptions
from rocketflow.client.pull.options import PullOptions
from rocketflow.client.push.options import PushOptions
from rocketflow_store.spi.setting_rows import rows_of

KINDS = (ClientOptions, ProducerOptions, PullOptions, PushOptions)


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_a_row_under_its_own_name(kind: type[ClientOptions]) -> None:
    assert [one.name for one in fields(kind)] == [one.key for one in rows_of(kind)]
    assert all(one.about for one in rows_of(kind))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_number_outside_its_bounds_names_the_option(kind: Any) -> None:
    for row in rows_of(kind):
        if row.bounds is not None:
            wrong = row.bounds[0] - 1
            with pytest.raises(ClientError, match=f"{row.key}={wrong}: must be "):
                kind(group="g", **{row.key: wrong})
    with pytest.raises((ClientError, TypeError), match="group"):
        kind()
