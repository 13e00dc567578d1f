"""A run comes in; a table, a page and files that other programs read go out."""

from unbag.reports.exports import (
    check_place,
    form_of,
    read_runs,
    report,
    to_csv,
    to_html,
    to_json,
    to_markdown,
)
from unbag.reports.formatting import prompt_lines
from unbag.reports.join import merge_runs
from unbag.reports.page import render_page
from unbag.reports.references import beside_lines
from unbag.reports.table import summary_lines, terminal_table, warning_lines

__all__ = [
    "beside_lines",
    "check_place",
    "form_of",
    "merge_runs",
    "prompt_lines",
    "read_runs",
    "render_page",
    "report",
    "summary_lines",
    "terminal_table",
    "to_csv",
    "to_html",
    "to_json",
    "to_markdown",
    "warning_lines",
]
