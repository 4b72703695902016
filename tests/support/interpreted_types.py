"""Make the types and shapes of Triton's interpreter once, which takes a third of its time away.

Every operation of a kernel makes the types and shapes of its operands and of its result anew, in
Python, which takes longer than NumPy's part. They never change, so operations can share them.
"""

from __future__ import annotations

from typing import Any


def keep_types(interpreter: Any) -> None:
    """Let all operations of this process share types, and skip what would change nothing."""
    from triton.language import core
    from triton.language.semantic import TritonSemantic

    if hasattr(core.block_type, "kept"):
        return
    core.block_type.kept = {}
    _keep_blocks(core)
    _share_shapes(core)
    _skip_the_same(core, TritonSemantic)
    interpreter.TensorHandle.__post_init__ = lambda self: None  # it checks the interpreter itself
    interpreter._patch_attr = _patched_attribute(interpreter)


def _keep_blocks(core: Any) -> None:
    """Make a block's type once for each element and shape."""
    block_type = core.block_type
    make, kept = block_type.__init__, block_type.kept

    def new(cls: Any, element: Any, shape: Any) -> Any:
        sizes = tuple([getattr(size, "value", size) for size in shape])
        key = element.name, getattr(element, "address_space", None), sizes
        found = kept.get(key)
        if found is None:
            found = object.__new__(cls)
            make(found, element, shape)  # which refuses shapes that no block has
            kept[key] = found
        return found

    block_type.__new__ = new
    block_type.__init__ = lambda self, element, shape: None


def _share_shapes(core: Any) -> None:
    """Give all tensors of a type the same shape."""
    make, scalar = core.tensor.__init__, (core.constexpr(1), core.tuple([]))

    def init(self: Any, handle: Any, type: Any) -> None:
        if not type.is_block():
            self.numel, self.shape = scalar
        elif (shared := type.__dict__.get("shared")) is not None:
            self.numel, self.shape = shared
        else:
            make(self, handle, type)
            type.shared = self.numel, self.shape
        self.handle, self.type, self.dtype = handle, type, type.scalar

    core.tensor.__init__ = init


def _skip_the_same(core: Any, semantic: Any) -> None:
    """Compare, cast and broadcast nothing that is the same object, or has that type or shape."""
    equals, cast, check = core.dtype.__eq__, semantic.cast, semantic.binary_op_type_checking_impl
    tensor, numbers = core.tensor, dict[Any, Any]()

    def cast_other(self: Any, input: Any, dst_ty: Any, *rest: Any, **named: Any) -> Any:
        if input.dtype is dst_ty:
            return input
        return cast(self, input, dst_ty, *rest, **named)

    def check_other(self: Any, lhs: Any, rhs: Any, *rest: Any, **named: Any) -> Any:
        # Pointers have rules of their own, and divisions may compute in another type.
        usual = len(rest) < 4 and not named.get("div_or_mod")
        if (
            type(lhs) is tensor is type(rhs)
            and lhs.dtype is rhs.dtype
            and usual
            and not lhs.dtype.is_ptr()
        ):
            return self.broadcast_impl_value(lhs, rhs)
        number, one = (lhs, rhs) if type(rhs) is tensor else (rhs, lhs)
        if type(number) not in (int, float) or one.type.is_ptr():
            return check(self, lhs, rhs, *rest, **named)
        # A number becomes the same block each time; of floats 0 and -0 are equal, and NaN is not.
        key = one.type.name, type(number), str(number), one is lhs, rest, *named.items()
        if (kept := numbers.get(key)) is None:
            found = check(self, lhs, rhs, *rest, **named)
            if found[one is rhs] is not one:  # it was converted itself
                return found
            kept = numbers[key] = found[one is lhs]
        return (one, kept) if one is lhs else (kept, one)

    core.dtype.__eq__ = lambda self, other: self is other or equals(self, other)
    semantic.cast, semantic.binary_op_type_checking_impl = cast_other, check_other
    semantic.broadcast_impl_value = _broadcast(core, semantic.broadcast_impl_value)


def _broadcast(core: Any, unequal_ranks: Any) -> Any:
    """Return the way to give two tensors one shape."""
    block_type = core.block_type

    def broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if not left.is_block():
            return (splat(self, lhs, right.shape) if right.is_block() else lhs), rhs
        if not right.is_block():
            return lhs, splat(self, rhs, left.shape)
        if left.shape.values == right.shape.values:
            return lhs, rhs
        shape = [b if a == 1 else a for a, b in zip(left.shape, right.shape, strict=False)]
        if len(left.shape) != len(right.shape) or any(
            b not in (1, size) for b, size in zip(right.shape, shape, strict=True)
        ):
            return unequal_ranks(self, lhs, rhs)
        return widen(self, lhs, shape), widen(self, rhs, shape)

    def splat(self: Any, one: Any, shape: Any) -> Any:
        made = block_type(one.dtype, shape)
        return self.make_tensor(self.builder.create_splat(made, one.handle), made)

    def widen(self: Any, one: Any, shape: list[int]) -> Any:
        if one.type.shape.values == shape:
            return one
        made = block_type(one.dtype, shape)
        return self.make_tensor(self.builder.create_broadcast(one.handle, shape), made)

    return broadcast


def _patched_attribute(interpreter: Any) -> Any:
    """Return the way to patch a function of Triton's language that calls it without its own check."""

    def patch(owner: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
        function = getattr(member, "__wrapped__", member)
        semantic = interpreter.interpreter_semantic

        def call(*args: Any, **named: Any) -> Any:
            named["_semantic"] = semantic
            return function(*args, **named)

        scope.set_attr(owner, name, call)

    return patch
