from hypothesis import settings

# The same examples in every run: a test that fails must fail again. Loading plugins slows the first example down.
settings.register_profile("fairgate", derandomize=True, deadline=None, max_examples=150)
settings.load_profile("fairgate")
