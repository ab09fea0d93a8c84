"""Errors about servers that do not know a request: they name the version that does."""

from __future__ import annotations

import pytest

from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.store_client import NotRocketFlowError, StoreClient
from rocketflow.remoting.codes import SINCE, RequestCode, ResponseCode
from tests.support.client_cluster import ClientCluster


@pytest.mark.parametrize(
    ("request_code", "code", "text"),
    [
        (RequestCode.RECALL_MESSAGE, 3, "with 3: no such; brokers of RocketMQ 5.3.2 or newer know it"),
        (RequestCode.ROCKETFLOW_PULL_RANGE, 3, "with 3: no such; brokers of RocketFlow 0.3.0 or newer know it"),
        (RequestCode.AUTH_LIST_USER, 3, "with 3: no such; brokers of RocketMQ 5.3.0 or newer know it"),
        (RequestCode.SEND_MESSAGE_V2, 3, "with 3: no such"),
        (RequestCode.RECALL_MESSAGE, ResponseCode.SYSTEM_ERROR, "with 1: no such"),
    ],
)
def test_refusal_of_an_unknown_request_names_the_version_that_knows_it(
    request_code: RequestCode, code: int, text: str
) -> None:
    found = str(RequestRefusedError("127.0.0.1:10911", request_code, code, "no such"))
    assert found == f"127.0.0.1:10911: request {int(request_code)} {request_code.name} was answered {text}"


def test_all_requests_of_rocketflow_have_a_version() -> None:
    own = [one for one in RequestCode if 30001 <= one <= 30009]
    assert len(own) == 9
    assert {SINCE[one] for one in own} == {"RocketFlow 0.3.0"}


def test_error_about_a_server_without_a_store_names_the_version_that_serves_one(cluster: ClientCluster) -> None:
    with pytest.raises(NotRocketFlowError) as caught:
        StoreClient(cluster.names.address).info()
    text = str(caught.value)
    assert text.startswith(f"the broker is not RocketFlow's, or too old: {cluster.names.address}: request 30005 ")
    assert text.endswith("; brokers of RocketFlow 0.3.0 or newer know it")
