"""The compiled clock, for times of whole numbers: `plan` writes a graph down as tables, `kernel` is the loop over them,
`tracker` what is called."""
