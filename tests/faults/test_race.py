"""Many processes on one queue."""
