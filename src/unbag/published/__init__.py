"""Numbers that papers print, as data with source and precision, and what is doubtful in them."""
