"""Products of matrices by the native CPU kernels, for training in float32; `native/products.h` has the code."""

from torch import Tensor

from elmore.kernels.native_library import Product, opened_native_library


def multiply(left: Tensor, right: Tensor, out: Tensor, *, adds: bool = False) -> None:
    """Fill out (M, N) with left (M, K) @ right (K, N), or add that to what is there.

    Left and right lie as they like; of out the numbers of a row lie side by side.
    """
    (rows, depth), columns = left.shape, right.shape[1]
    if depth == 0:
        if not adds:
            out.zero_()
        return
    product = Product(
        rows,
        depth,
        columns,
        left.data_ptr(),
        *left.stride(),
        right.data_ptr(),
        *right.stride(),
        out.data_ptr(),
        out.stride(0),
        int(adds),
    )
    opened_native_library().multiply(product)
