"""Rows and deletes that Iceberg's own Java library writes without Spark, as Flink's and Kafka's writers do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = Mapping[str, Any]


class JavaTable:
    """A table in Java's hands."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._iceberg: Any = self._jvm.org.apache.iceberg
        self.table: Any = self._iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)

    def append(self, *rows: Row, partition: str | None = None) -> None:
        """One data file of rows whose values JSON spells: texts, numbers, booleans."""
        writer = self._factory().build().newDataWriter(*self._where(partition))
        for row in rows:
            writer.write(self._record(row, self.table.schema()))
        writer.close()
        self.table.newAppend().appendFile(writer.toDataFile()).commit()

    def copy(self, name: str) -> None:
        """One data file with the rows of another table of the same columns, of whatever types."""
        found = JavaTable(self._spark, name).table
        writer = self._factory().build().newDataWriter(*self._where(None))
        rows = self._iceberg.data.IcebergGenerics.read(found).build()
        for record in iter_java(rows):
            writer.write(record)
        rows.close()
        writer.close()
        self.table.newAppend().appendFile(writer.toDataFile()).commit()

    def add(self, path: str, size: int, rows: int) -> None:
        """A file that is there already, of which nothing but its rows is known."""
        built = self._iceberg.DataFiles.builder(self.table.spec()).withPath(path).withFormat("parquet")
        self.table.newAppend().appendFile(built.withFileSizeInBytes(size).withRecordCount(rows).build()).commit()

    def delete(self, *rows: Row, by: Iterable[str], partition: str | None = None, spec: int | None = None) -> None:
        """One file of equality deletes: the rows that have these values in these columns."""
        columns = self.table.schema().select(list(by))
        ids = [columns.findField(name).fieldId() for name in by]
        numbers = self._spark.sparkContext._gateway.new_array(self._jvm.int, len(ids))  # type: ignore[union-attr]
        for place, number in enumerate(ids):
            numbers[place] = number
        factory = self._factory().equalityFieldIds(numbers).equalityDeleteRowSchema(columns).build()
        writer = factory.newEqualityDeleteWriter(*self._where(partition, spec))
        for row in rows:
            writer.write(self._record(row, columns))
        writer.close()
        self.table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()

    def rows(self) -> list[str]:
        """Every row as Java reads and spells it, in one order."""
        self.table.refresh()
        found = self._iceberg.data.IcebergGenerics.read(self.table).build()
        columns = self.table.schema().columns().size()
        rows = sorted(_spelled(record, columns) for record in iter_java(found))
        found.close()
        return rows

    def _factory(self) -> Any:
        self.table.refresh()
        parquet = self._iceberg.FileFormat.PARQUET
        factory = getattr(self._iceberg.data, "GenericFileWriterFactory$Builder")
        return factory(self.table).dataFileFormat(parquet).deleteFileFormat(parquet).dataSchema(self.table.schema())

    def _where(self, partition: str | None, spec: int | None = None) -> tuple[Any, Any, Any]:
        """A new file, its spec, and its partition as paths spell it."""
        path = f"{self.table.location()}/data/{uuid.uuid4()}.parquet"
        file = self._iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(self.table.io().newOutputFile(path))
        found = self.table.spec() if spec is None else self.table.specs().get(spec)
        values = self._iceberg.DataFiles.data(found, partition) if partition is not None else None
        return file, found, values

    def _record(self, row: Row, schema: Any) -> Any:
        """Java parses the row: a number that Python hands over would be an Integer in place of a Long."""
        by_id = {str(schema.findField(name).fieldId()): value for name, value in row.items()}
        return self._iceberg.SingleValueParser.fromJson(schema.asStruct(), json.dumps(by_id))


def _spelled(record: Any, columns: int) -> str:
    """The row without what Java reads for deletes beside it."""
    if record.size() == columns:
        return str(record.toString())
    return f"Record({', '.join(_word(record.get(place)) for place in range(columns))})"


def _word(value: Any) -> str:
    return "null" if value is None else str(value)


def iter_java(rows: Any) -> Iterable[Any]:
    found = rows.iterator()
    while found.hasNext():
        yield found.next()
