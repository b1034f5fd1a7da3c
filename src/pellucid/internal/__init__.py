"""What users do not import: it may change in any version. What they may is one level up."""
