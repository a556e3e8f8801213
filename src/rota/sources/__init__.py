"""Places that work comes from, and how it is taken from them and given back."""
