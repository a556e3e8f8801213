"""One file per peer: its best configuration that loses nothing in a power cut."""
