"""A pipeline as a model for NuSMV and nuXmv."""
