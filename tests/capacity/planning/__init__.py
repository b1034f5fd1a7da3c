"""Plans for topologies."""
