"""Public files to disk: fetched with resume, checked, unpacked safely."""
