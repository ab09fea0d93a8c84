"""`rocketflow store`: read a store, change it, repair it."""
