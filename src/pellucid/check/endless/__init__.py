"""Questions about more states than can be listed: exact integers, queues without a bound, any number of keys."""
