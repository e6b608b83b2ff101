"""What two nodes must agree on before they work together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drom_net.protocol.messages import PROTOCOL_VERSION, Hello


@dataclass(frozen=True, slots=True)
class Identity:
    """What a Hello must agree with."""

    run_id: str
    config_digest: str
    dim: int
    numpy: str
    blas: str
    feature_digest: str = ""
    """Empty where the node does not know it: then the first Hello's holds for all."""

    def disagreement(self, hello: Hello, names: Sequence[str], *, me: str, feature_digest: str) -> str:
        """Why these two cannot work together; empty when they can.

        Args:
            names: The tasks' names, in task order.
            me: How this node is called in the answer.
            feature_digest: The features to agree with, as far as they are known.
        """
        if hello.version != PROTOCOL_VERSION:
            return f"it speaks version {hello.version} of the protocol, {me} version {PROTOCOL_VERSION}"
        if hello.run_id and hello.run_id != self.run_id:
            return f"it belongs to run {hello.run_id}, this is run {self.run_id}"
        if hello.task >= len(names):
            return f"it wants to be task {hello.task} of {len(names)} (counted from 0)"
        name = names[hello.task]
        if hello.config_digest != self.config_digest:
            return (
                f"its configuration is another one (digest {hello.config_digest[:12]}, "
                f"here {self.config_digest[:12]}): {name} and {me} need the same YAML file"
            )
        if hello.dim != self.dim:
            return f"the data of {name} has {hello.dim} features, this run has {self.dim}"
        if feature_digest and hello.feature_digest != feature_digest:
            return f"the features of {name} have other names, or another order, than those of the others"
        return ""

    def difference(self, hello: Hello, name: str, *, me: str) -> str:
        """What may make the last bits differ; empty when nothing does."""
        if (self.numpy, self.blas) == (hello.numpy, hello.blas):
            return ""
        return (
            f"{name} computes with NumPy {hello.numpy} on BLAS kernel {hello.blas}, {me} "
            f"with {self.numpy} on {self.blas}: the last bits, and so the digest, may differ from other runs"
        )
