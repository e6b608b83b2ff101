"""AdaDROM: each task mixes a few small experts, and all that travels is a sum over sites."""
