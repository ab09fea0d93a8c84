"""The body with which a broker registers, plain or compressed.

RocketMQ's source: remoting/protocol/body/RegisterBrokerBody.java, namesrv/processor/
DefaultRequestProcessor.java (registerBroker).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from rocketflow.namesrv.route_table import Registration
from rocketflow.remoting.bodies import RegisterBrokerBody, TopicConfigWrapper, decode_body
from rocketflow.remoting.errors import BodyError
from rocketflow_store.spi.table_rows import DataVersion, TopicConfig

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.headers.route import RegisterBrokerRequestHeader

EXPIRY_MS: Final = 120_000
MAX_SIZE: Final = 64 * 1024 * 1024
"""Largest body in bytes after decompression."""

_CRC_MASK: Final = 0x7FFFFFFF


def decode_registration(command: Command, header: RegisterBrokerRequestHeader) -> Registration:
    """Decode a broker's registration. Raises BodyError."""
    if header.body_crc32 and header.body_crc32 != zlib.crc32(command.body) & _CRC_MASK:
        raise BodyError("crc32 not match: the body of the registration is damaged")
    body = _body(command.body, header.compressed)
    wrapper = body.topic_config_serialize_wrapper
    return Registration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        timeout_ms=header.heartbeat_timeout_millis or EXPIRY_MS,
        enable_acting_master=header.enable_acting_master,
        zone_name=command.fields.get("__ZONE_NAME"),
        data_version=wrapper.data_version,
        topics=wrapper.topic_config_table,
        filter_servers=body.filter_server_list,
    )


def _body(data: bytes, compressed: bool) -> RegisterBrokerBody:
    """Decode the body; brokers of RocketMQ 5 compress it without saying so."""
    if not data:
        return RegisterBrokerBody()
    if compressed or not data.lstrip().startswith(b"{"):
        return _decompressed(data)
    return decode_body(data, RegisterBrokerBody)


def _decompressed(data: bytes) -> RegisterBrokerBody:
    try:
        stream = zlib.decompressobj()
        plain = stream.decompress(data, MAX_SIZE)
    except zlib.error as error:
        raise BodyError(f"the body of the registration is no zlib stream: {error}") from None
    if stream.unconsumed_tail:
        raise BodyError(f"the body of the registration is larger than {MAX_SIZE} bytes")
    reader = _Reader(plain)
    version = decode_body(reader.text(), DataVersion)
    topics = [_topic(reader.text()) for _ in range(reader.number())]
    filter_servers = decode_body(reader.text() or b"[]", list[str])
    wrapper = TopicConfigWrapper(data_version=version, topic_config_table={one.topic_name: one for one in topics})
    return RegisterBrokerBody(filter_server_list=filter_servers, topic_config_serialize_wrapper=wrapper)


def _topic(line: bytes) -> TopicConfig:
    """Decode `name readQueueNums writeQueueNums perm filterType attributes`."""
    parts = line.decode(errors="replace").split(" ", 5)
    try:
        name, read, write, perm, filter_type = parts[:5]
        attributes = decode_body(parts[5].encode(), dict[str, str]) if len(parts) > 5 and parts[5] else {}
        return TopicConfig(
            topic_name=name,
            read_queue_nums=int(read),
            write_queue_nums=int(write),
            perm=int(perm),
            topic_filter_type=filter_type,
            attributes=attributes,
        )
    except ValueError as error:
        raise BodyError(f"{line!r} describes no topic: {error}") from None


class _Reader:
    """Reads sized texts and numbers of a decompressed body."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        number = int.from_bytes(self._take(4), "big", signed=True)
        if not 0 <= number <= len(self._data):
            raise BodyError(f"the body of the registration has the size {number} at {self._at - 4}")
        return number

    def text(self) -> bytes:
        return self._take(self.number())

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise BodyError("the body of the registration ends too early")
        return self._data[begin : self._at]
