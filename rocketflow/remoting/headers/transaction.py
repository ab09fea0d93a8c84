"""Headers of transactions."""

from __future__ import annotations

from rocketflow.remoting.headers.header import Header, Int32, Int64, RpcRequestHeader


class EndTransactionRequestHeader(RpcRequestHeader, kw_only=True):
    """37 END_TRANSACTION."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool | None = None
    msg_id: str
    transaction_id: str | None = None


class CheckTransactionStateRequestHeader(RpcRequestHeader, kw_only=True):
    """39 CHECK_TRANSACTION_STATE."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header, kw_only=True):
    """323 RESUME_CHECK_HALF_MESSAGE."""

    topic: str | None = None
    msg_id: str | None = None
