"""drom_net in scripts and notebooks. `import drom_net` has all of it, and imports a module when it is first used."""
