"""How a kernel finds the row of a key: a hash table with linear probing when compiled, a dictionary when plain."""

from __future__ import annotations

from pellucid.engine.kernel.layout import KernelLayout


def finders(layout: KernelLayout, numba: bool) -> str:
    """For each keyed region: the function that finds a key's row, or makes one."""
    out = []
    for r, region in enumerate(layout.regions):
        if not region.keys:
            continue
        size = len(region.keys)
        args = ", ".join(f"a{j}" for j in range(size))
        if numba:
            # Two functions: the search is small enough to be put in place, the rest is called rarely.
            same = " and ".join(f"K[s * {size} + {j}] == a{j}" for j in range(size))
            mix = "".join(
                f"    h = (h ^ np.uint64(a{j})) * np.uint64(0x9E3779B97F4A7C15)\n    h ^= h >> np.uint64(29)\n"
                for j in range(size)
            )
            out.append(
                f"@njit\ndef find{r}(H, K, {args}):\n    h = np.uint64(0)\n{mix}"
                "    mask = np.uint64(H.size - 1)\n    h &= mask\n"
                "    while True:\n        s = H[h] - 1\n        if s < 0: return s\n"
                f"        if {same}: return s\n        h = (h + np.uint64(1)) & mask\n"
            )
            out.append(
                f"@njit\ndef make{r}(H, K, S, T, M, {args}):\n    h = np.uint64(0)\n{mix}"
                "    mask = np.uint64(H.size - 1)\n    h &= mask\n"
                "    while H[h] != 0: h = (h + np.uint64(1)) & mask\n"
                f"    s = M[{4 + r}]\n    M[{4 + r}] = s + 1\n    H[h] = s + 1\n"
                + "".join(f"    K[s * {size} + {j}] = a{j}\n" for j in range(size))
                + f"    for j in range({{W{r}}}): S[s * {{W{r}}} + j] = T[j]\n    return s\n"
            )
        else:
            out.append(
                f"def find{r}(H, K, S, T, M, {args}):\n    s = H.get(({args},))\n    if s is None:\n"
                f"        s = M[{4 + r}]; M[{4 + r}] = s + 1; H[({args},)] = s; K.extend(({args},)); "
                "S.extend(_fresh(T))\n"
                "    return s\n"
            )
    return "\n".join(out)
