"""Every interleaving with crashes, packed and reduced; and the same literally."""
