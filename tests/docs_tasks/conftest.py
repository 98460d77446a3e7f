# The tasks are scripts, which test_doors.py runs: a look for doctests would run them, too.
collect_ignore = ["simulate.py", "plan.py", "import_into_jax.py", "deploy.py"]
