"""What a streaming query remembers between micro-batches."""
