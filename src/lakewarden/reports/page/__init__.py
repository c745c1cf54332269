"""The report as one HTML page, built from parts that other pages can show too."""

from lakewarden.reports.page.write import WrittenReport, write_report

__all__ = ["WrittenReport", "write_report"]
