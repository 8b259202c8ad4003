// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loop IR -> thread IR: the only code that sees both.
//
// A kernel scheduled for a GPU is a program of blocks. Its outermost loop, if parallel, is the grid: one block an iteration. Inside, loops of
// kind `thread` are spread over the threads of the block; what stands outside of them is done by all threads alike.
//   - A thread loop of extent E gives iteration v to thread v mod B. E constant and equal to the block size B: no loop is left.
//   - An Update in a thread loop of a location that does not depend on the loop is a reduction: each thread combines its own, then the threads'
//     values are combined by shuffles and shared memory, in an order that depends on B alone; all threads get the result.
//   - Local buffers: those allocated inside a thread loop belong to a thread. Of those allocated outside: buffers that no thread loop writes
//     elements of are kept by every thread (equal values); buffers whose axis is indexed by the variable of full thread loops alone are
//     spread over the threads, without that axis; all others are shared memory, or, where the caller asks for it and their size depends on the
//     shape, a part for each block of a further argument (Kernel::scratch).
//   - Vector loops inside thread loops become vector accesses where addresses allow it.
//   - A Store to global memory outside of thread loops is done by thread 0.
#include "ir/target.h"
#include "loop/loop_ir.h"
#include "thread/thread_ir.h"

namespace stax::lower {

/// `rows_in_global`: buffers of blocks whose size depends on the shape are not shared memory. `block`: threads of a block. The kernel's parameters and arguments stay the same and in order. Gives the final stage (all thread passes run).
thread::Kernel lower_to_thread(const loop::Kernel& kernel, const ir::Target& target, int block, int index_bits,
                               bool rows_in_global = false);

/// The same in the structured stage: no pass over thread IR has run.
thread::Kernel lower_to_structured(const loop::Kernel& kernel, const ir::Target& target, int block, int index_bits,
                                   bool rows_in_global = false);

}  // namespace stax::lower
