"""Two pipelines side by side: the same in every push, or the same sequence whatever the delay."""
