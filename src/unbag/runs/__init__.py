"""What every long job needs: files, identity, cache, distributed processes, progress."""
