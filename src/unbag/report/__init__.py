"""A run comes in; a table, a page and files that other programs read go out."""

from unbag.report.exports import to_csv, to_json, to_markdown
from unbag.report.layout import merge_runs
from unbag.report.page import render_page
from unbag.report.table import terminal_table

__all__ = ["merge_runs", "render_page", "terminal_table", "to_csv", "to_json", "to_markdown"]
