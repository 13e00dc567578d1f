"""Collections of captions: files in and out, and jobs that edit all captions of one."""
