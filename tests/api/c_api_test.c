/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface, from C99: c_api_test FOLDER_OF_MODELS. Runs on dense.stax, nonzero.stax and sequence.stax, so that
 * both libraries can be tested. */
#include <stax/c_api.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int faults = 0;

static void check(int holds, const char* what, int line) {
  if (holds) return;
  ++faults;
  fprintf(stderr, "line %d: %s\n  last error: %s\n", line, what, stax_last_error());
}
#define CHECK(condition) check((condition) ? 1 : 0, #condition, __LINE__)

static char path_buffer[4096];
static const char* path_of(const char* folder, const char* name) {
  snprintf(path_buffer, sizeof path_buffer, "%s/%s", folder, name);
  return path_buffer;
}

/* dense: relu(x w + b), w[k][c] = (3 k + c - 5) / 8. */
static float dense(const float* x, int c) {
  static const float bias[3] = {0.5f, -1.0f, 0.25f};
  float sum = bias[c];
  for (int k = 0; k < 4; ++k) sum += x[k] * ((float)(3 * k + c) - 5) / 8;
  return sum > 0 ? sum : 0;
}

static void test_dense(const char* folder) {
  stax_model* model = NULL;
  CHECK(stax_load(path_of(folder, "dense.stax"), NULL, &model) == STAX_OK);
  if (!model) return;
  CHECK(stax_input_count(model) == 1 && stax_output_count(model) == 1);
  const stax_port* port = stax_input(model, 0);
  CHECK(strcmp(port->name, "x") == 0 && port->dtype.code == STAX_DL_FLOAT && port->dtype.bits == 32 && port->ndim == 2);
  CHECK(strcmp(port->extents[0].name, "batch") == 0 && port->extents[1].lo == 4 && port->extents[1].hi == 4);
  CHECK(stax_input(model, 1) == NULL);

  float x[8] = {1, 2, 3, 4, -1, 0.5f, 2, -3}, y[6];
  int64_t shape[2] = {2, 4}, out_shape[2] = {2, 3};
  stax_dl_tensor in = stax_cpu_tensor(x, STAX_DL_FLOAT, 32, 2, shape);
  stax_dl_tensor out = stax_cpu_tensor(y, STAX_DL_FLOAT, 32, 2, out_shape);
  const stax_dl_tensor* inputs[] = {&in};
  stax_dl_tensor* outputs[] = {&out};

  /* What is not there is not read. */
  stax_result* refused = NULL;
  CHECK(stax_run(model, inputs, (size_t)-1, &refused) == STAX_ERROR_USER);
  CHECK(stax_run_into(model, inputs, 1, outputs, (size_t)-1) == STAX_ERROR_USER);
  stax_dl_tensor wrong = in;
  const stax_dl_tensor* wrong_inputs[] = {&wrong};
  wrong.ndim = 1 << 30;
  CHECK(stax_run(model, wrong_inputs, 1, &refused) == STAX_ERROR_USER);
  wrong = in;
  wrong.byte_offset = (uint64_t)-4;
  CHECK(stax_run(model, wrong_inputs, 1, &refused) == STAX_ERROR_USER);
  int64_t far[2] = {INT64_MAX, INT64_MIN};
  wrong = in;
  wrong.strides = far;
  CHECK(stax_run(model, wrong_inputs, 1, &refused) == STAX_ERROR_USER && refused == NULL);
  wrong = in;
  for (int lanes = 0; lanes < 4; ++lanes) {
    wrong.dtype.lanes = (uint16_t)lanes;
    CHECK((stax_run(model, wrong_inputs, 1, &refused) == STAX_ERROR_USER) == (lanes != 1));
    if (lanes == 1) stax_result_free(refused), refused = NULL;
    if (lanes == 1) continue;
    CHECK(strstr(stax_last_error_what(), "lanes") && strcmp(stax_last_error_where(), "input 'x'") == 0);
    CHECK(strstr(stax_last_error_how(), "one lane") != NULL);
  }
  int64_t meeting[2] = {1, 1};
  out.strides = meeting;
  CHECK(stax_run_into(model, inputs, 1, outputs, 1) == STAX_ERROR_USER);
  out.strides = NULL;

  stax_result* result = NULL;
  CHECK(stax_run(model, inputs, 1, &result) == STAX_OK);
  CHECK(stax_result_count(result) == 1);
  const stax_dl_tensor* got = stax_result_tensor(result, 0);
  CHECK(got->ndim == 2 && got->shape[0] == 2 && got->shape[1] == 3 && got->device.device_type == STAX_DL_CPU &&
        got->byte_offset == 0 && got->strides[0] == 3 && got->strides[1] == 1);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 3; ++c) CHECK(fabsf(((const float*)got->data)[3 * r + c] - dense(x + 4 * r, c)) < 1e-5f);

  CHECK(stax_run_into(model, inputs, 1, outputs, 1) == STAX_OK);
  CHECK(memcmp(y, got->data, sizeof y) == 0);

  /* Given away, a tensor outlives result and model. */
  stax_dl_managed_tensor* managed = NULL;
  stax_dl_managed_tensor_versioned* versioned = NULL;
  CHECK(stax_result_dlpack(result, 0, 0, &managed) == STAX_OK);
  CHECK(stax_result_dlpack_versioned(result, 0, 0, &versioned) == STAX_OK);
  CHECK(versioned->version.major == 1);
  CHECK(stax_result_dlpack(result, 1, 0, &managed) == STAX_ERROR_USER);

  /* Strides and an offset: columns of a matrix, one element in. */
  float wide[2 * 9 + 1];
  int64_t strides[2] = {1, 2};
  for (int r = 0; r < 2; ++r)
    for (int k = 0; k < 4; ++k) wide[1 + r + 2 * k] = x[4 * r + k];
  stax_dl_tensor strided = stax_cpu_tensor(wide, STAX_DL_FLOAT, 32, 2, shape);
  strided.strides = strides;
  strided.byte_offset = sizeof(float);
  inputs[0] = &strided;
  memset(y, 0, sizeof y);
  CHECK(stax_run_into(model, inputs, 1, outputs, 1) == STAX_OK);
  CHECK(memcmp(y, managed->dl_tensor.data, sizeof y) == 0);
  CHECK(stax_get_statistics(model).packed_inputs == 1 && stax_get_statistics(model).copied_outputs == 0);

  /* Faults have a status and three parts. */
  inputs[0] = &in;
  in.dtype.bits = 64;
  stax_result* none = NULL;
  CHECK(stax_run(model, inputs, 1, &none) == STAX_ERROR_USER && none == NULL);
  CHECK(strcmp(stax_last_error_where(), "input 'x'") == 0 && strstr(stax_last_error_what(), "float64") &&
        strlen(stax_last_error_how()) > 0);
  in.dtype.bits = 32;
  in.dtype.code = 17;
  CHECK(stax_run(model, inputs, 1, &none) == STAX_ERROR_USER && strstr(stax_last_error(), "17"));
  in.dtype.code = STAX_DL_FLOAT;
  in.device.device_type = 2;
  CHECK(stax_run(model, inputs, 1, &none) == STAX_ERROR_USER && strstr(stax_last_error(), "device"));
  in.device.device_type = STAX_DL_CPU;
  CHECK(stax_run(model, NULL, 1, &none) == STAX_ERROR_USER);
  CHECK(stax_run(NULL, inputs, 1, &none) == STAX_ERROR_USER);
  CHECK(stax_run(model, inputs, 1, NULL) == STAX_ERROR_USER);
  out_shape[0] = 3;
  CHECK(stax_run_into(model, inputs, 1, outputs, 1) == STAX_ERROR_USER && strstr(stax_last_error(), "[2, 3]"));

  stax_result_free(result);
  stax_model_free(model);
  CHECK(fabsf(((const float*)managed->dl_tensor.data)[0] - dense(x, 0)) < 1e-5f);
  CHECK(fabsf(((const float*)versioned->dl_tensor.data)[5] - dense(x + 4, 2)) < 1e-5f);
  managed->deleter(managed);
  versioned->deleter(versioned);
}

struct memory {
  void* data[2];
  int64_t extents[2][2];
  int calls;
};

static void* allocate(void* context, size_t output, stax_dl_data_type dtype, const int64_t* shape, int32_t ndim) {
  struct memory* memory = context;
  int64_t bytes = dtype.bits / 8;
  for (int32_t k = 0; k < ndim; ++k) memory->extents[output][k] = shape[k], bytes *= shape[k];
  ++memory->calls;
  return memory->data[output] = malloc((size_t)bytes + 1);
}

static void* refuse(void* context, size_t output, stax_dl_data_type dtype, const int64_t* shape, int32_t ndim) {
  (void)context, (void)output, (void)dtype, (void)shape, (void)ndim;
  return NULL;
}

static void test_allocator(const char* folder) {
  stax_model* model = NULL;
  CHECK(stax_load(path_of(folder, "nonzero.stax"), NULL, &model) == STAX_OK);
  if (!model) return;
  float x[5] = {0, 1, 0, 2, 3};
  int64_t shape[1] = {5};
  stax_dl_tensor in = stax_cpu_tensor(x, STAX_DL_FLOAT, 32, 1, shape);
  const stax_dl_tensor* inputs[] = {&in};
  struct memory memory;
  memset(&memory, 0, sizeof memory);
  CHECK(stax_run_allocating(model, inputs, 1, allocate, &memory) == STAX_OK);
  CHECK(memory.calls == 2 && memory.extents[0][0] == 1 && memory.extents[0][1] == 3 && memory.extents[1][0] == 5);
  CHECK(((int64_t*)memory.data[0])[2] == 4 && ((float*)memory.data[1])[3] == 3);
  free(memory.data[0]);
  free(memory.data[1]);
  CHECK(stax_run_allocating(model, inputs, 1, refuse, NULL) == STAX_ERROR_OUT_OF_MEMORY);
  CHECK(stax_run_allocating(model, inputs, 1, NULL, NULL) == STAX_ERROR_USER);
  stax_model_free(model);
}

static void test_sequence(const char* folder) {
  stax_model* model = NULL;
  CHECK(stax_load(path_of(folder, "sequence.stax"), NULL, &model) == STAX_OK);
  if (!model) return;
  CHECK(stax_input(model, 0)->is_sequence && stax_input(model, 0)->ndim == -1);
  float a[2] = {1, 2}, b[4] = {3, 4, 5, 6};
  int64_t shape_a[2] = {1, 2}, shape_b[2] = {2, 2};
  stax_dl_tensor first = stax_cpu_tensor(a, STAX_DL_FLOAT, 32, 2, shape_a),
                 second = stax_cpu_tensor(b, STAX_DL_FLOAT, 32, 2, shape_b);
  const stax_dl_tensor* elements[] = {&first};
  stax_value inputs[2] = {{NULL, elements, 1}, {&second, NULL, 0}};
  stax_result* result = NULL;
  CHECK(stax_run_values(model, inputs, 2, &result) == STAX_OK);
  CHECK(stax_result_tensor(result, 0) == NULL && stax_result_length(result, 0) == 2 &&
        stax_result_length(result, 1) == 0);
  CHECK(stax_result_element(result, 0, 1)->shape[0] == 2 &&
        ((const float*)stax_result_element(result, 0, 1)->data)[3] == 6);
  CHECK(stax_result_element(result, 0, 2) == NULL);
  CHECK(*(const int64_t*)stax_result_tensor(result, 1)->data == 2);
  stax_result_free(result);
  stax_model_free(model);
}

static void count_mismatch(void* context, const stax_mismatch* mismatch) {
  printf("%s: %s\n", mismatch->kernel, mismatch->what);
  ++*(int*)context;
}

static void test_checked(const char* folder) {
  int mismatches = 0;
  stax_options options = {0};
  options.check_every = 2;
  options.on_mismatch = count_mismatch;
  options.on_mismatch_context = &mismatches;
  stax_model* model = NULL;
  CHECK(stax_load(path_of(folder, "dense.stax"), &options, &model) == STAX_OK);
  float x[12] = {0}, y[9];
  int64_t shape[2] = {3, 4}, out_shape[2] = {3, 3};
  stax_dl_tensor in = stax_cpu_tensor(x, STAX_DL_FLOAT, 32, 2, shape);
  stax_dl_tensor out = stax_cpu_tensor(y, STAX_DL_FLOAT, 32, 2, out_shape);
  const stax_dl_tensor* inputs[] = {&in};
  stax_dl_tensor* outputs[] = {&out};
  for (int k = 0; k < 5; ++k) CHECK(stax_run_into(model, inputs, 1, outputs, 1) == STAX_OK);
  stax_statistics statistics = stax_get_statistics(model);
  CHECK(statistics.calls == 5 && statistics.checked_calls == 3 && statistics.mismatches == 0 && mismatches == 0);
  stax_model_free(model);
  options.check_every = -1;
  model = NULL;
  CHECK(stax_load(path_of(folder, "dense.stax"), &options, &model) == STAX_ERROR_USER && model == NULL);
  CHECK(strstr(stax_last_error(), "check_every"));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  CHECK(strcmp(stax_last_error(), "") == 0);
  stax_model* model = NULL;
  CHECK(stax_load(path_of(argv[1], "nowhere.stax"), NULL, &model) == STAX_ERROR_USER && model == NULL);
  CHECK(strstr(stax_last_error_where(), "nowhere.stax") && strstr(stax_last_error(), "does not exist"));
  CHECK(stax_load(NULL, NULL, &model) == STAX_ERROR_USER);
  CHECK(stax_load("", NULL, &model) == STAX_ERROR_USER && *stax_last_error_where() && *stax_last_error_how());
  CHECK(stax_load(path_of(argv[1], "dense.stax"), NULL, NULL) == STAX_ERROR_USER);
  stax_options negative = {NULL, 0, -1, NULL, 0, NULL, NULL};
  CHECK(stax_load(path_of(argv[1], "dense.stax"), &negative, &model) == STAX_ERROR_USER && model == NULL);
  stax_dim_range twice[2] = {{"batch", 1, 8}, {"batch", 2, 4}};
  stax_options contradictory = {twice, 2, 1, NULL, 0, NULL, NULL};
  CHECK(stax_load(path_of(argv[1], "dense.onnx"), &contradictory, &model) == STAX_ERROR_USER && model == NULL);
  CHECK(strcmp(stax_last_error_where(), "dim 'batch'") == 0);
  stax_options options = {NULL, 0, 1, NULL, 0, NULL, NULL};
  stax_dim_range range = {"batch", 1, 8};
  options.dims = &range;
  options.dim_count = 1;
  if (stax_has_compiler()) {
    CHECK(stax_load(path_of(argv[1], "dense.onnx"), &options, &model) == STAX_OK);
    CHECK(stax_input(model, 0)->extents[0].hi == 8);
    stax_model_free(model);
  } else {
    CHECK(stax_load(path_of(argv[1], "dense.onnx"), &options, &model) == STAX_ERROR_UNSUPPORTED);
    CHECK(strstr(stax_last_error_what(), "this is the runtime library") &&
          strstr(stax_last_error_how(), "stax compile"));
  }
  stax_model_free(NULL);
  stax_result_free(NULL);
  test_dense(argv[1]);
  test_allocator(argv[1]);
  test_sequence(argv[1]);
  test_checked(argv[1]);
  printf("stax %s, %s compiler: %s\n", stax_version(), stax_has_compiler() ? "with" : "without",
         faults ? "FAILED" : "ok");
  return faults ? 1 : 0;
}
