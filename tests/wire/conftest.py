from world_fixtures import in_a_world, loop, world  # noqa: F401  (fixtures, for all tests here)
