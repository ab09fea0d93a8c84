"""The data source `rocketflow`: the class that Spark looks up, which creates readers and writers."""

# ruff: noqa: N802 - the method names are Spark's

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from rocketflow.spark.shared.plain_errors import OWN_ERRORS, in_worker, with_plain_errors
from rocketflow.spark.shared.quiet_daemon import quiet_main_daemon

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


quiet_main_daemon()  # in a worker, this is the first import of RocketFlow


@with_plain_errors
class RocketFlowDataSource(DataSource):
    """Messages of RocketMQ stores as rows; see rocketflow/spark/README.md for options and columns."""

    @classmethod
    def name(cls) -> str:
        return "rocketflow"

    def schema(self) -> StructType:
        from rocketflow.spark.shared.option_values import OptionValues
        from rocketflow.spark.source.columns import source_schema
        from rocketflow.spark.source.source_options import SOURCE_OPTIONS
        from rocketflow_store import OnBadBody

        values = OptionValues(self.options, SOURCE_OPTIONS)
        return source_schema(values.value("includeProperties"), values.value("onBadBody") is OnBadBody.RAW)

    def reader(self, schema: StructType) -> DataSourceReader:
        from rocketflow.spark.source.batch_reader import RocketFlowBatchReader
        from rocketflow.spark.source.columns import Projection
        from rocketflow.spark.source.source_options import SourceOptions

        return RocketFlowBatchReader(SourceOptions.parse(self.options, streaming=False), Projection.of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rocketflow.spark.source.columns import Projection
        from rocketflow.spark.source.refused_reader import RefusedReader
        from rocketflow.spark.source.source_options import SourceOptions
        from rocketflow.spark.source.stream_reader import RocketFlowStreamReader

        try:
            return RocketFlowStreamReader(SourceOptions.parse(self.options, streaming=True), Projection.of(schema))
        except OWN_ERRORS as error:
            if not in_worker():
                raise
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rocketflow.spark.sink.writers import make_batch_writer

        return make_batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from rocketflow.spark.sink.writers import make_stream_writer

        return make_stream_writer(self.options, schema, overwrite)
