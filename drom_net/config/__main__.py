"""``python -m drom_net.config``: the JSON Schema and the tables of docs/configuration.md, written anew."""

from drom_net.config.schema import write_reference

write_reference()
