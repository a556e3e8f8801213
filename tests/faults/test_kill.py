"""kill -9 of the server and of workers."""
