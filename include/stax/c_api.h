/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STAX_C_API_H
#define STAX_C_API_H
/*
 * Stax for C99, and for every language that calls C. In libstax and in libstax_runtime; this interface keeps its binary
 * form within a major version.
 *
 *   stax_model* model;
 *   if (stax_load("m.stax", NULL, &model) != STAX_OK) { fprintf(stderr, "%s\n", stax_last_error()); exit(1); }
 *   int64_t shape[2] = {rows, 4};
 *   stax_dl_tensor x = stax_cpu_tensor(data, STAX_DL_FLOAT, 32, 2, shape);
 *   const stax_dl_tensor* inputs[] = {&x};
 *   stax_result* result;
 *   if (stax_run(model, inputs, 1, &result) != STAX_OK) ...
 *   const stax_dl_tensor* y = stax_result_tensor(result, 0);
 *   ...
 *   stax_result_free(result);
 *   stax_model_free(model);
 *
 * Tensors are DLPack's: the structs below have the layout of DLTensor, DLManagedTensor and DLManagedTensorVersioned, so
 * that pointers to those of other frameworks can be cast. Include DLPack's own header first and its types are used.
 *
 * Functions that can fail return a stax_status and write their result through the last argument, or leave it alone.
 * What went wrong is kept for each thread until its next failing call. No exception leaves a function. A model may be
 * used by several threads at once; a result belongs to one thread at a time.
 */
/* NOLINTBEGIN(modernize-*) */
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define STAX_C_API
#else
#define STAX_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tensors of DLPack ------------------------------------------------------------------------------------------- */

#ifdef DLPACK_DLPACK_H_
typedef DLDevice stax_dl_device;
typedef DLDataType stax_dl_data_type;
typedef DLTensor stax_dl_tensor;
typedef struct DLManagedTensor stax_dl_managed_tensor;
#else
typedef struct stax_dl_device {
  int32_t device_type; /* STAX_DL_CPU */
  int32_t device_id;
} stax_dl_device;

typedef struct stax_dl_data_type {
  uint8_t code;   /* STAX_DL_INT .. STAX_DL_BOOL */
  uint8_t bits;   /* of one element; bool: 8 */
  uint16_t lanes; /* 1 */
} stax_dl_data_type;

/* Memory that someone else owns. The first element is byte_offset bytes behind data. */
typedef struct stax_dl_tensor {
  void* data;
  stax_dl_device device;
  int32_t ndim;
  stax_dl_data_type dtype;
  int64_t* shape;   /* ndim extents */
  int64_t* strides; /* ndim strides in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} stax_dl_tensor;

/* A tensor that its holder owns: to be given back by deleter(self), once. */
typedef struct stax_dl_managed_tensor {
  stax_dl_tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct stax_dl_managed_tensor* self);
} stax_dl_managed_tensor;
#endif

#if defined(DLPACK_DLPACK_H_) && defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION >= 1
typedef struct DLManagedTensorVersioned stax_dl_managed_tensor_versioned;
#else
typedef struct stax_dl_version {
  uint32_t major, minor;
} stax_dl_version;

/* The same since version 1 of DLPack. */
typedef struct stax_dl_managed_tensor_versioned {
  stax_dl_version version;
  void* manager_ctx;
  void (*deleter)(struct stax_dl_managed_tensor_versioned* self);
  uint64_t flags; /* bit 0: read only; bit 1: a copy */
  stax_dl_tensor dl_tensor;
} stax_dl_managed_tensor_versioned;
#endif

/* Device types and type codes that Stax takes and gives. */
#define STAX_DL_CPU 1
#define STAX_DL_INT 0
#define STAX_DL_UINT 1
#define STAX_DL_FLOAT 2
#define STAX_DL_BFLOAT 4
#define STAX_DL_BOOL 6

/* A view of `data`, row-major without gaps; `shape` is not copied. */
STAX_C_API stax_dl_tensor stax_cpu_tensor(void* data, int code, int bits, int ndim, int64_t* shape);

/* ---- errors ------------------------------------------------------------------------------------------------------ */

typedef enum stax_status {
  STAX_OK = 0,
  STAX_ERROR_USER = 1,        /* an argument, a file or a shape is wrong */
  STAX_ERROR_UNSUPPORTED = 2, /* legal, but Stax cannot do it */
  STAX_ERROR_OUT_OF_MEMORY = 3,
  STAX_ERROR_INTERNAL = 70 /* a fault of Stax's */
} stax_status;

/* Of this thread's last failing call: all of it ("where: what; how"), and its parts. Empty before the first. Valid
 * until the thread's next failing call. */
STAX_C_API const char* stax_last_error(void);
STAX_C_API const char* stax_last_error_what(void);
STAX_C_API const char* stax_last_error_where(void);
STAX_C_API const char* stax_last_error_how(void);

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct stax_model stax_model;
typedef struct stax_result stax_result;

typedef struct stax_dim_range {
  const char* name; /* of a dim in the model, or input[axis] */
  int64_t lo, hi;   /* inclusive */
} stax_dim_range;

/* A kernel that gave another result than its version that is right at every shape. The texts live during the callback. */
typedef struct stax_mismatch {
  const char* kernel;    /* its name and version */
  const char* operation; /* the operator of the model */
  const char* what;      /* "element [3, 0] is 1.5 instead of 2 (4 of 64 differ)" */
} stax_mismatch;
typedef void (*stax_mismatch_callback)(void* context, const stax_mismatch* mismatch);

/* All zero is the default. */
typedef struct stax_options {
  const stax_dim_range* dims;
  size_t dim_count;
  int threads;        /* 0: all cores */
  const char* device; /* NULL: "cpu" */
  /* Of so many calls one, beginning with the first, runs each of its kernels a second time, in the version that is right
   * at every shape, and compares. Where they differ the call goes on with the right result, and that version is not used
   * again. 0: none. */
  int64_t check_every;
  stax_mismatch_callback on_mismatch; /* NULL, or called for each of them on the thread of the call */
  void* on_mismatch_context;
} stax_options;

typedef struct stax_extent {
  const char* name;         /* symbol, expression, or digits */
  int64_t lo, hi, multiple; /* lo == hi: constant */
} stax_extent;

/* What an input takes or an output gives; owned by the model. */
typedef struct stax_port {
  const char* name;
  stax_dl_data_type dtype;
  int is_sequence;
  int32_t ndim;               /* -1: decided by the data, or a sequence */
  const stax_extent* extents; /* ndim */
} stax_port;

/* Version of the library, such as "0.1.0". */
STAX_C_API const char* stax_version(void);
/* 1 in libstax, 0 in libstax_runtime. */
STAX_C_API int stax_has_compiler(void);

/* A `.stax` file; in libstax also an ONNX model or tensor IR text, compiled now. `options` may be NULL. */
STAX_C_API stax_status stax_load(const char* path, const stax_options* options, stax_model** model);
STAX_C_API stax_status stax_load_bytes(const void* bytes, size_t size, const char* name, const stax_options* options,
                                       stax_model** model);
/* Writes a `.stax` file, complete or not at all. Missing folders are made. libstax only. */
STAX_C_API stax_status stax_compile_to(const stax_model* model, const char* path);
/* Results stay valid. NULL is allowed. */
STAX_C_API void stax_model_free(stax_model* model);

STAX_C_API size_t stax_input_count(const stax_model* model);
STAX_C_API size_t stax_output_count(const stax_model* model);
/* NULL for an index out of range. */
STAX_C_API const stax_port* stax_input(const stax_model* model, size_t index);
STAX_C_API const stax_port* stax_output(const stax_model* model, size_t index);

typedef struct stax_statistics {
  int64_t calls, failed_calls, kernel_launches, shape_hits, shape_misses, packed_inputs, copied_outputs, peak_bytes,
      compiles_after_load, checked_calls, mismatches;
  double compile_ms, load_ms;
} stax_statistics;
STAX_C_API stax_statistics stax_get_statistics(const stax_model* model);

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Inputs in the order of stax_input(); only read, and only during the call. */
STAX_C_API stax_status stax_run(const stax_model* model, const stax_dl_tensor* const* inputs, size_t count,
                                stax_result** result);

/* Into memory of the caller's, whose types and shapes must be exactly those of the results. Any strides under which each
 * element of each output has memory of its own. */
STAX_C_API stax_status stax_run_into(const stax_model* model, const stax_dl_tensor* const* inputs, size_t count,
                                     stax_dl_tensor* const* outputs, size_t output_count);

/* Into memory that `allocate` gives once an output's shape is known: at least its bytes, aligned for its type. NULL
 * ends the call with STAX_ERROR_OUT_OF_MEMORY. */
typedef void* (*stax_allocator)(void* context, size_t output, stax_dl_data_type dtype, const int64_t* shape,
                                int32_t ndim);
STAX_C_API stax_status stax_run_allocating(const stax_model* model, const stax_dl_tensor* const* inputs, size_t count,
                                           stax_allocator allocate, void* context);

/* For models with sequences among their inputs: a tensor (`tensor`), or a sequence (`tensor` NULL, `elements`). */
typedef struct stax_value {
  const stax_dl_tensor* tensor;
  const stax_dl_tensor* const* elements;
  size_t element_count;
} stax_value;
STAX_C_API stax_status stax_run_values(const stax_model* model, const stax_value* inputs, size_t count,
                                       stax_result** result);

/* ---- results ----------------------------------------------------------------------------------------------------- */

STAX_C_API size_t stax_result_count(const stax_result* result);
/* The tensor of an output, owned by the result; NULL for an index out of range, or a sequence. */
STAX_C_API const stax_dl_tensor* stax_result_tensor(const stax_result* result, size_t output);
/* Elements of an output that is a sequence; 0 for a tensor. */
STAX_C_API size_t stax_result_length(const stax_result* result, size_t output);
STAX_C_API const stax_dl_tensor* stax_result_element(const stax_result* result, size_t output, size_t element);
/* The same for good: it lives until its deleter is called, whatever becomes of result and model. It shares the
 * result's memory, which no other output has. `element`: of a sequence, else 0. */
STAX_C_API stax_status stax_result_dlpack(const stax_result* result, size_t output, size_t element,
                                          stax_dl_managed_tensor** tensor);
STAX_C_API stax_status stax_result_dlpack_versioned(const stax_result* result, size_t output, size_t element,
                                                    stax_dl_managed_tensor_versioned** tensor);
STAX_C_API void stax_result_free(stax_result* result);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-*) */

#endif
