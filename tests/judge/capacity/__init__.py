"""Judges of capacity, written from what queues mean and from nothing that they judge."""
