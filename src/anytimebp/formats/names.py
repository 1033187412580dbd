"""How the nodes of foreign graphs, which may be any objects, become names of variables."""

from collections.abc import Hashable, Iterable

from anytimebp.errors import ModelError


def names_of(nodes: Iterable[Hashable]) -> dict[Hashable, str]:
    """Return a name per node, `str(node)`; refuse nodes that would share one."""
    names: dict[Hashable, str] = {}
    node_of: dict[str, Hashable] = {}
    for node in nodes:
        name = str(node)
        if name in node_of:
            msg = f"the nodes {node_of[name]!r} and {node!r} would both become the variable {name!r}; rename one"
            raise ModelError(msg)
        names[node] = name
        node_of[name] = node
    return names
