"""Pictures that are opened late: from files, from pixels."""
