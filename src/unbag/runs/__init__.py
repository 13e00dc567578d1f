"""Support for long jobs: files, run identity, caches, distributed processes, progress."""
