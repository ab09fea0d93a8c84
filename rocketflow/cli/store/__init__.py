"""`rocketflow store`: look at a store, change it, repair it."""
