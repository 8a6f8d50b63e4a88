"""Compile the kernels to an object file for this processor, and write it to standard output.

`_compiled` runs this program in a process of its own. Numba translates the kernels one by one, and would also optimise each
and make machine code of it. Here only the two entries are called from outside. So Numba only translates, and LLVM
optimises everything at once, which takes a third of the time.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from llvmlite import binding  # comes with Numba
from numba.core import codegen, cpu

from zishu.chart._compiled import target_machine


def compile_kernels() -> bytes:
    """Return machine code for this processor: an object file with the entries."""
    from zishu.chart import _kernels  # which Numba translates as soon as it is imported

    whole = binding.parse_assembly("")
    for name in ("prepare", "run"):
        entry = getattr(_kernels, name)
        module = binding.parse_assembly(entry.inspect_llvm(entry.signatures[0]))
        [for_c] = (function for function in module.functions if function.name.startswith("cfunc."))
        for_c.name = name
        whole.triple, whole.data_layout = module.triple, module.data_layout
        whole.link_in(module)
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and value.name not in ("prepare", "run"):
            value.linkage = "internal"
    machine = target_machine()
    tuning = binding.create_pipeline_tuning_options()
    tuning.loop_unrolling = False  # the sums of the chart would then need more registers than there are
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(whole, builder)
    # No function raises an exception. With this known, nothing of Numba or Python is left.
    passes = binding.create_new_module_pass_manager()
    passes.add_ipsccp_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    unknown = {value.name for value in whole.functions if value.is_declaration} - {"exp", "log"}
    unknown = {name for name in unknown if not name.startswith("llvm.")}
    if unknown:
        raise RuntimeError(f"the kernels need {', '.join(sorted(unknown))}")
    compiled: bytes = machine.emit_object(whole)
    return compiled


def _finish(_context: Any, library: Any, _description: Any, _environment: Any) -> Any:
    """Finish a function without machine code, and return what Numba stores instead: something different each time."""
    library.finalize()
    return [].append


if __name__ == "__main__":
    gc.disable()  # the process ends soon
    # These two methods are not public, so a test looks at them. Without them, compiling takes longer.
    codegen.JITCodeLibrary._finalize_specific = lambda _: None  # type: ignore[method-assign]
    cpu.CPUContext.get_executable = _finish  # type: ignore[method-assign]
    sys.stdout.buffer.write(compile_kernels())
