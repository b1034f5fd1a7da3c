"""A pipeline as one fused loop: its text, its compilation, its run."""
