"""What ``pellucid run`` does on this machine: ``given`` reads the options, ``local`` runs over files and pipes and
``writing`` writes what comes out, ``epochs`` is the run that survives ``kill -9``."""
