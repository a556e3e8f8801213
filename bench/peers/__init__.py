"""One file per peer: its best configuration that loses nothing on a power cut."""
